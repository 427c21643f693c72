"use strict";
// Series to zoom into: two sliders say how much is seen and from where; the pointer reads values.
for (const box of document.querySelectorAll(".explore")) {
  const values = box.dataset.values.split(",").map((text) => (text === "" ? NaN : Number(text)));
  const step = Number(box.dataset.step);
  const { label, unit } = box.dataset;
  const least = Math.min(40, values.length);
  const add = (name, parent, settings) =>
    Object.assign(parent.appendChild(document.createElement(name)), settings);
  const canvas = add("canvas", box, {});
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  const slider = (text) =>
    add("input", add("label", box, { textContent: text }), { type: "range", min: 0, max: 1000, value: 0 });
  const zoom = slider("zoom");
  const place = slider("place");
  const readout = add("output", box, {});
  let pointer = null;

  const view = () => {
    const share = (least / values.length) ** (zoom.value / 1000);
    const count = Math.max(least, Math.round(values.length * share));
    const first = Math.round((values.length - count) * (place.value / 1000));
    return [first, first + count];
  };

  const range = (first, last) => {
    let low = 0;
    let high = 0;
    for (let t = first; t < last; t += 1) {
      if (values[t] < low) low = values[t];
      if (values[t] > high) high = values[t];
    }
    return [low, high];
  };

  const draw = () => {
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const colour = (name) => getComputedStyle(box).getPropertyValue(name);
    const [first, last] = view();
    const [low, high] = range(first, last);
    const across = (t) => ((t - first + 0.5) / (last - first)) * width;
    const down = (value) => height - 6 - ((value - low) / (high - low || 1)) * (height - 12);
    const line = (from, to) => {
      pen.beginPath();
      pen.moveTo(...from);
      pen.lineTo(...to);
      pen.stroke();
    };
    pen.strokeStyle = colour("--muted");
    line([0, down(0)], [width, down(0)]);
    pen.strokeStyle = colour("--estimate");
    pen.beginPath();
    for (let t = first; t < last; t += 1) {
      // After a gap the line starts anew.
      if (t === first || Number.isNaN(values[t - 1])) pen.moveTo(across(t), down(values[t]));
      else pen.lineTo(across(t), down(values[t]));
    }
    pen.stroke();
    const ends = `${first * step} to ${last * step - 1}`;
    let words = `Time steps ${ends}: ${low.toPrecision(3)} to ${high.toPrecision(3)} ${unit}`;
    if (pointer !== null) {
      const at = Math.min(last - 1, Math.max(first, Math.floor(first + (pointer / width) * (last - first))));
      const value = Number.isNaN(values[at]) ? "no value" : `${values[at]} ${unit}`;
      words = `Time step ${at * step}: ${value}`;
      pen.strokeStyle = colour("--other");
      line([across(at), 0], [across(at), height]);
    }
    readout.textContent = words;
  };

  zoom.addEventListener("input", draw);
  place.addEventListener("input", draw);
  canvas.addEventListener("pointermove", (event) => {
    pointer = event.offsetX;
    draw();
  });
  canvas.addEventListener("pointerleave", () => {
    pointer = null;
    draw();
  });
  draw();
  new ResizeObserver(draw).observe(canvas);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
