// Shows the uploads: one bar for all, with their speed; and a row for those that are large, few, or have failed.

import { button, byId, element } from "./dom.js";
import { counted, readableNumber, readableSize } from "./format.js";

const FEW = 8; // as many uploads have a row each
const LARGE = 1024 * 1024; // bytes; a larger upload has a row too
const ROWS = 30; // at most; a node that stops fails a thousand uploads
const WINDOW = 4000; // milliseconds over which the speed is measured

const rows = new Map(); // upload -> its row
let samples = []; // [time, bytes sent]
let isPlanned = false;

/** Show the state of a batch with the next frame. */
export function show(batch) {
  if (!isPlanned) {
    isPlanned = true;
    // A hidden tab has no frames, and shows nothing.
    requestAnimationFrame(() => {
      isPlanned = false;
      draw(batch);
    });
  }
}

function draw(batch) {
  const uploads = [...batch.uploads];
  const failed = uploads.filter((each) => each.state === "failed");
  const counting = uploads.filter((each) => each.state !== "failed");
  const isBusy = counting.some((each) => each.state !== "done");
  byId("uploads").hidden = !isBusy && !failed.length;
  byId("upload-bar").hidden = byId("cancel-all").hidden = !isBusy;
  byId("retry-failed").hidden = byId("dismiss-failed").hidden = failed.length < 2;
  const words = isBusy ? progress(counting) : [];
  byId("upload-words").textContent = [...words, failed.length ? `${readableNumber(failed.length)} failed` : ""]
    .filter(Boolean)
    .join(" · ");
  if (!isBusy) {
    samples = [];
  }
  drawRows(uploads);
}

/** Show how far the uploads are; return it in words. */
function progress(uploads) {
  const size = sum(uploads, (each) => each.size);
  const sent = sum(uploads, (each) => each.sent);
  const done = uploads.filter((each) => each.state === "done").length;
  // Of small files, the number counts; of large ones, the bytes.
  byId("upload-bar").value = (sent / Math.max(1, size) + done / uploads.length) / 2;
  const speed = speedAt(performance.now(), sent);
  const left = speed ? (size - sent) / speed : 0;
  return [
    `${readableNumber(done)} of ${counted(uploads.length, "upload")}`,
    `${readableSize(sent)} of ${readableSize(size)}`,
    speed ? `${readableSize(speed)}/s` : "",
    left > 2 ? `${readableTime(left)} left` : "",
  ];
}

const sum = (items, value) => items.reduce((total, each) => total + value(each), 0);

/** Return the bytes a second of the last seconds. */
function speedAt(now, sent) {
  if (samples.length && sent < samples.at(-1)[1]) {
    samples = []; // some were cancelled
  }
  samples.push([now, sent]);
  samples = samples.filter(([time]) => now - time < WINDOW);
  const [[from, before]] = samples;
  return now - from > 200 ? ((sent - before) * 1000) / (now - from) : 0;
}

function readableTime(seconds) {
  const minutes = Math.round(seconds / 60);
  return minutes < 1 ? `${Math.round(seconds)} s` : minutes < 60 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

function drawRows(uploads) {
  const isListed = ({ state, size }) =>
    state === "failed" || (state !== "done" && (uploads.length <= FEW || (state === "running" && size > LARGE)));
  const listed = new Set(uploads.filter(isListed).slice(0, ROWS));
  for (const [upload, row] of rows) {
    if (!listed.has(upload)) {
      row.item.remove();
      rows.delete(upload);
    }
  }
  for (const upload of listed) {
    if (!rows.has(upload)) {
      rows.set(upload, newRow(upload));
    }
    fill(rows.get(upload), upload);
  }
}

function newRow(upload) {
  const row = {
    words: element("span", { className: "what" }),
    actions: element("span", { className: "actions" }),
    bar: element("progress", { max: 1, value: 0, ariaLabel: `Upload of ${upload.shown}` }),
    state: "",
  };
  row.item = element("li", {}, row.words, row.actions, row.bar);
  byId("upload-list").append(row.item);
  return row;
}

function fill(row, upload) {
  const isSent = upload.state === "running" && upload.sent >= upload.size;
  const state = isSent ? "pinning" : upload.state;
  row.words.textContent = `${upload.shown}: ${wordsFor(state, upload)}`;
  row.bar.value = upload.size ? upload.sent / upload.size : 1;
  if (row.state !== state) {
    row.state = state;
    row.bar.hidden = state === "failed";
    row.item.className = state;
    row.actions.replaceChildren(...buttonsFor(state, upload));
  }
}

function wordsFor(state, { why, sent, size }) {
  const texts = { failed: why, waiting: "waiting", pinning: "pinning" };
  return texts[state] ?? `${readableSize(sent)} of ${readableSize(size)}`;
}

function buttonsFor(state, upload) {
  const act = (label, action) => button(label, action, { ariaLabel: `${label}: ${upload.shown}` });
  if (state === "failed") {
    return [act("Retry", upload.retry), act("Dismiss", upload.dismiss)];
  }
  // The node has received all of an upload that it pins: that cannot be cancelled.
  return state === "pinning" ? [] : [act("Cancel", upload.cancel)];
}
