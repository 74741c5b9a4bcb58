// The timelines of the page: each is drawn on a canvas from the arrays that stand in the page as JSON.
"use strict";

const kLabels = Math.min(190, window.innerWidth * 0.3), kRow = 14, kGap = 8, kAxis = 22, kFewest = 0.05; // pixels; microseconds across the whole width
const colours = getComputedStyle(document.documentElement);
const colour = (name) => colours.getPropertyValue("--" + name).trim();
const hint = document.getElementById("hint");

function timeText(microseconds) {
  const size = Math.abs(microseconds);
  if (size < 1000) return microseconds.toFixed(1) + " us";
  if (size < 1e6) return (microseconds / 1000).toFixed(3) + " ms";
  return (microseconds / 1e6).toFixed(4) + " s";
}

function sizeText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.length; ++unit) bytes /= 1024;
  return (unit === 0 ? bytes : bytes.toFixed(1)) + " " + units[unit];
}

// A round distance between marks, of which at most this many fit.
function markDistance(span, most) {
  const power = Math.pow(10, Math.floor(Math.log10(span / most)));
  return [1, 2, 5, 10].map((x) => x * power).find((x) => x * most >= span);
}

// As much of a text as the width has room for: a canvas would squeeze the letters.
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 0 && context.measureText(text.slice(0, length) + "\u2026").width > width) --length;
  return length > 0 ? text.slice(0, length) + "\u2026" : "";
}

class Timeline {
  constructor(data, place) {
    this.data = data;
    this.canvas = place.appendChild(document.createElement("canvas"));
    this.rows = [];
    for (const rank of data.ranks) {
      this.rows.push({ title: rank.name, heading: true });
      for (const track of rank.tracks)
        for (let row = 0; row < track.rows; ++row)
          this.rows.push({ title: row === 0 ? track.name : "", rank: rank.name, events: track.events.filter((e) => e[2] === row) });
    }
    this.begin = data.begin;
    this.span = Math.max(data.end - data.begin, kFewest);
    this.events = this.rows.reduce((sum, row) => sum + (row.events ? row.events.length : 0), 0);
    this.listen();
    this.draw();
  }

  width() { return this.canvas.clientWidth - kLabels; }
  x(time) { return kLabels + ((time - this.begin) / this.span) * this.width(); }
  time(x) { return this.begin + ((x - kLabels) / this.width()) * this.span; }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(this.time(event.offsetX), Math.exp(event.deltaY / 400));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      this.held = event.offsetX;
      canvas.setPointerCapture(event.pointerId);
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { this.held = undefined; });
    canvas.addEventListener("pointermove", (event) => {
      if (this.held !== undefined) {
        this.begin -= ((event.offsetX - this.held) / this.width()) * this.span;
        this.held = event.offsetX;
        this.draw();
      }
      this.tell(event);
    });
    canvas.addEventListener("pointerleave", () => { hint.style.display = "none"; });
    canvas.addEventListener("dblclick", () => {
      this.begin = this.data.begin;
      this.span = Math.max(this.data.end - this.data.begin, kFewest);
      this.draw();
    });
    window.addEventListener("resize", () => this.draw());
  }

  zoom(centre, factor) {
    const span = Math.min(Math.max(this.span * factor, kFewest), 4 * Math.max(this.data.end - this.data.begin, kFewest));
    this.begin = centre - (centre - this.begin) * (span / this.span);
    this.span = span;
    this.draw();
  }

  // Counts the events that begin before this time, by binary search: they are sorted and do not overlap within a row.
  countBefore(events, time) {
    let low = 0, high = events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (events[middle][0] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  tell(pointer) {
    const row = this.rows[Math.floor((pointer.offsetY - kAxis) / (kRow + 2))];
    const lines = row === undefined ? [] : pointer.offsetX > kLabels ? this.linesAt(row, this.time(pointer.offsetX)) : [row.title];
    hint.textContent = lines.join("\n");
    hint.style.display = hint.textContent === "" ? "none" : "block";
    hint.style.left = Math.max(Math.min(pointer.clientX + 14, window.innerWidth - hint.offsetWidth - 8), 0) + "px";
    hint.style.top = Math.max(Math.min(pointer.clientY + 14, window.innerHeight - hint.offsetHeight - 8), 0) + "px";
  }

  // What is to say of the row's event at this time.
  linesAt(row, time) {
    const event = row.events ? row.events[this.countBefore(row.events, time) - 1] : undefined;
    const slack = this.span / this.width();
    if (!event || event[0] + event[1] + slack < time) return [];
    const what = this.data.kinds[event[3]];
    const lines = [what.name, `${timeText(event[1])} from ${timeText(event[0])}`, row.rank];
    if (what.carrier) lines.push(`transport ${what.carrier}` + (what.reason && what.reason !== "none" ? `: ${this.data.reasons[what.reason] || what.reason}` : ""));
    if (event[4]) lines.push(sizeText(event[4]));
    const [communicator, peer, tag] = event.slice(5);
    if (peer >= 0) lines.push(`peer ${peer}` + (tag >= 0 ? `, tag ${tag}` : ""));
    if (communicator) lines.push(this.data.communicators[communicator]);
    return lines;
  }

  draw() {
    const height = kAxis + this.rows.length * (kRow + 2) + kGap, scale = window.devicePixelRatio || 1;
    this.canvas.style.height = height + "px";
    this.canvas.width = this.canvas.clientWidth * scale;
    this.canvas.height = height * scale;
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    context.textBaseline = "middle";
    this.drawAxis(context, height);
    this.rows.forEach((row, i) => this.drawRow(context, row, kAxis + i * (kRow + 2)));
  }

  drawAxis(context, height) {
    const distance = markDistance(this.span, Math.max(Math.floor(this.width() / 90), 1)); // pixels for one in words
    context.strokeStyle = colour("line");
    context.fillStyle = colour("soft");
    for (let mark = Math.ceil(this.begin / distance) * distance; mark < this.begin + this.span; mark += distance) {
      const x = Math.round(this.x(mark)) + 0.5;
      context.beginPath();
      context.moveTo(x, kAxis - 6);
      context.lineTo(x, height);
      context.stroke();
      if (x + 3 + context.measureText(timeText(mark)).width < this.canvas.clientWidth)
        context.fillText(timeText(mark), x + 3, kAxis / 2);
    }
  }

  drawRow(context, row, top) {
    context.fillStyle = colour(row.heading ? "text" : "soft");
    context.fillText(fitted(context, row.title, kLabels - 24), row.heading ? 8 : 20, top + kRow / 2);
    if (!row.events) return;
    const last = this.countBefore(row.events, this.begin + this.span);
    let drawnTo = -1; // what is narrower than a pixel is drawn once
    for (let i = Math.max(this.countBefore(row.events, this.begin) - 1, 0); i < last; ++i) {
      const event = row.events[i], what = this.data.kinds[event[3]];
      const left = Math.max(this.x(event[0]), kLabels), right = Math.min(this.x(event[0] + event[1]), kLabels + this.width());
      if (right < kLabels || Math.max(right, left + 1) <= drawnTo) continue;
      context.fillStyle = colour(what.colour);
      context.fillRect(left, top, Math.max(right - left, 1), kRow);
      drawnTo = Math.max(right, left + 1);
      if (right - left < 40) continue;
      context.fillStyle = what.colour === "part" ? colour("text") : what.colour === "copy" ? "#1b1f24" : "#ffffff";
      context.fillText(fitted(context, what.name, right - left - 6), left + 4, top + kRow / 2);
    }
  }
}

// Shows those lines of the tables of calls that have all words of the filter.
function filter(words) {
  for (const row of document.querySelectorAll(".calls tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.classList.toggle("hidden", !words.every((word) => text.includes(word)));
  }
}
const filterField = document.getElementById("filter");
if (filterField)
  filterField.addEventListener("input", () => filter(filterField.value.toLowerCase().split(/\s+/).filter(Boolean)));

window.addEventListener("error", (event) => { document.documentElement.dataset.error = event.message; });
for (const place of document.querySelectorAll(".timeline")) {
  const timeline = new Timeline(JSON.parse(document.getElementById(place.dataset.of).textContent), place);
  place.dataset.events = timeline.events;
}
document.documentElement.dataset.ready = "yes";
