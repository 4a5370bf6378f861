// Notes in time, higher ones higher, and what a note was written from; they can be heard.

import { strongest } from "./data.js";
import { CanvasSurface, DASHES, followPointer } from "./surface.js";

const ABOVE = 46, LABELS = 34, NAMES = ["C", "C♯", "D", "E♭", "E", "F", "F♯", "G", "A♭", "A", "B♭", "B"];
const hertz = (pitch) => 440 * 2 ** ((pitch - 69) / 12);

export class Roll {
  constructor(section, { onHover, onPin }) {
    this.section = section;
    this.canvas = section.querySelector("canvas");
    this.button = section.querySelector("#play");
    followPointer(this.canvas, (x, y) => this.tokenAt(x, y), { onHover, onPin });
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Enter" && this.shown.looked) onPin("queries", this.shown.looked.at);
      if (!step) return;
      event.preventDefault();
      const spots = this.shown.roll.written;
      let at = (this.shown.looked?.at ?? -1) + step;
      while (spots[at] === null) at += step;
      if (spots[at]) onHover("queries", at);
    });
    this.button.addEventListener("click", () => this.play());
  }

  // shown: { roll, maps, looked, colours }
  draw(shown) {
    this.shown = shown;
    const { notes } = shown.roll, pitches = notes.map((note) => note[2]);
    [this.low, this.high] = [Math.min(...pitches) - 2, Math.max(...pitches) + 2];
    this.seconds = Math.max(...notes.map((note) => note[1]));
    const width = Math.max(320, this.section.clientWidth);
    this.row = Math.max(5, Math.min(11, 300 / (this.high - this.low)));
    this.size = [width, ABOVE + this.row * (this.high - this.low + 1)];
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${this.size[1]}px` });
    this.redraw();
  }

  redraw() {
    this.export(new CanvasSurface(this.canvas, ...this.size));
  }

  x(seconds) {
    return LABELS + ((this.size[0] - LABELS - 8) * seconds) / this.seconds;
  }

  y(pitch) {
    return ABOVE + (this.high - pitch + 0.5) * this.row;
  }

  // The token that was written for the note there.
  tokenAt(x, y) {
    const { notes, written, each = written } = this.shown.roll, pitch = this.high - Math.floor((y - ABOVE) / this.row);
    const seconds = ((x - LABELS) * this.seconds) / (this.size[0] - LABELS - 8);
    const note = notes.find(([start, end, high]) => Math.abs(high - pitch) <= 0.5 && start <= seconds && seconds < end);
    if (!note) return null;
    const at = each.findIndex((spot) => spot && spot[1] === note[2] && spot[0] >= note[0] - 1e-3 && spot[0] < note[1]);
    return at < 0 ? null : Math.floor(at / Math.ceil(each.length / written.length)); // its group
  }

  export(surface) {
    const { roll: { notes, written, read }, maps, looked, colours } = this.shown;
    for (let pitch = Math.ceil(this.low / 12) * 12; pitch <= this.high; pitch += 12) {
      surface.rect(LABELS, this.y(pitch) + this.row / 2, this.size[0] - LABELS, 1, { fill: colours.rule });
      surface.text(LABELS - 8, this.y(pitch), `${NAMES[pitch % 12]}${pitch / 12 - 1}`, { fill: colours.muted, size: 11, align: "right" });
    }
    for (const [start, end, pitch, voice] of notes) {
      const here = [this.x(start), this.y(pitch) - this.row / 2 + 1, Math.max(2, this.x(end) - this.x(start) - 1.5), this.row - 2];
      surface.rect(...here, { fill: colours.heads[voice % colours.heads.length], alpha: looked ? 0.35 : 0.75 });
    }
    const { given } = this.shown.roll;
    if (given > 0 && given < this.seconds) {
      surface.line([this.x(given), ABOVE / 2], [this.x(given), this.size[1]], { stroke: colours.accent, width: 1.5, dash: [4, 4] });
      const late = this.x(given) > this.size[0] - 130; // no room to the right
      surface.text(this.x(given) + (late ? -6 : 6), ABOVE / 2 - 2, late ? "written after this" : "written from here on", { fill: colours.accent, size: 12, align: late ? "right" : "left" });
    }
    const from = looked?.side === "queries" ? written[looked.at] : null;
    if (!from) return;
    const middle = ([seconds, pitch]) => [this.x(seconds) + 3, this.y(pitch)];
    maps.forEach(({ map, colour }, number) => {
      for (const [, key, share] of strongest(map, { row: looked.at, least: 0.01, most: 60 })) {
        if (!read[key]) continue;
        const [a, b] = [middle(from), middle(read[key])];
        surface.curve(a, b, false, {
          stroke: maps.length > 1 ? colours.heads[colour] : colours.ink, dash: maps.length > 1 ? DASHES[number] : [],
          width: 0.6 + 7 * share, alpha: 0.25 + 0.75 * Math.sqrt(share), lift: 6 + 40 * Math.min(1, Math.abs(a[0] - b[0]) / 300),
        });
      }
    });
    const [x, y] = middle(from);
    surface.rect(x - 5, y - 5, 10, 10, { stroke: colours.ink, line: 2 });
  }

  // Plain tones: enough to hear which notes are meant.
  play() {
    if (this.sound) { this.sound.close(); this.sound = null; this.button.textContent = "play"; return; }
    const sound = (this.sound = new AudioContext()), now = sound.currentTime + 0.1;
    for (const [start, end, pitch] of this.shown.roll.notes) {
      const tone = new OscillatorNode(sound, { type: "triangle", frequency: hertz(pitch) }), loud = new GainNode(sound, { gain: 0 });
      loud.gain.setValueAtTime(0, now + start);
      loud.gain.linearRampToValueAtTime(0.12, now + start + 0.02);
      loud.gain.setTargetAtTime(0, now + end - 0.06, 0.03);
      tone.connect(loud).connect(sound.destination);
      tone.start(now + start);
      tone.stop(now + end + 0.2);
    }
    this.button.textContent = "stop";
    const follow = () => {
      if (this.sound !== sound) { this.redraw(); return; }
      const passed = sound.currentTime - now;
      if (passed > this.seconds + 0.5) { this.play(); return; }
      this.redraw();
      const surface = this.canvas.getContext("2d");
      surface.fillStyle = this.shown.colours.accent;
      surface.fillRect(this.x(Math.max(0, passed)), 0, 2, this.size[1]);
      requestAnimationFrame(follow);
    };
    requestAnimationFrame(follow);
  }
}
