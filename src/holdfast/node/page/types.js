// Media types in words: "JSON", "PNG image".

const WORDS = {
  "": "File",
  "application/gzip": "gzip archive",
  "application/javascript": "JavaScript",
  "application/json": "JSON",
  "application/octet-stream": "File",
  "application/pdf": "PDF document",
  "application/vnd.ipld.car": "CAR archive",
  "application/vnd.ipld.dag-cbor": "DAG-CBOR",
  "application/vnd.ipld.dag-json": "DAG-JSON",
  "application/x-tar": "tar archive",
  "application/zip": "ZIP archive",
  "audio/mpeg": "MP3 audio",
  "directory": "Folder",
  "image/svg+xml": "SVG image",
  "inode/symlink": "Symbolic link",
  "text/css": "CSS",
  "text/csv": "CSV table",
  "text/html": "HTML page",
  "text/javascript": "JavaScript",
  "text/markdown": "Markdown",
  "text/plain": "Text",
  "text/tab-separated-values": "TSV table",
};
const NOUNS = { application: "file", audio: "audio", font: "font", image: "image", text: "text", video: "video" };

/** Return a media type in words. */
export function typeWords(type) {
  const plain = type.split(";")[0].trim().toLowerCase();
  if (Object.hasOwn(WORDS, plain)) {
    return WORDS[plain];
  }
  const [kind, rest = ""] = plain.split("/");
  const name = rest.replace(/^(x-|vnd\.)+/, "").replace(/\+.*/, "").split(".").at(-1);
  return name && Object.hasOwn(NOUNS, kind) ? `${name.toUpperCase()} ${NOUNS[kind]}` : plain;
}
