// Media types in words: "JSON", "PNG image".

const WORDS = {
  "": "File",
  "application/epub+zip": "EPUB book",
  "application/gzip": "gzip archive",
  "application/javascript": "JavaScript",
  "application/json": "JSON",
  "application/manifest+json": "Web app manifest",
  "application/n-quads": "N-Quads",
  "application/n-triples": "N-Triples",
  "application/octet-stream": "File",
  "application/pdf": "PDF document",
  "application/postscript": "PostScript document",
  "application/rtf": "RTF document",
  "application/vnd.apple.mpegurl": "M3U playlist",
  "application/vnd.ipld.car": "CAR archive",
  "application/vnd.ipld.dag-cbor": "DAG-CBOR",
  "application/vnd.ipld.dag-json": "DAG-JSON",
  "application/x-7z-compressed": "7-Zip archive",
  "application/x-bzip2": "bzip2 archive",
  "application/x-httpd-php": "PHP code",
  "application/x-latex": "LaTeX document",
  "application/x-netcdf": "NetCDF file",
  "application/x-pn-realaudio": "RealAudio",
  "application/x-python-code": "Python bytecode",
  "application/x-sh": "Shell script",
  "application/x-tar": "tar archive",
  "application/x-tex": "TeX document",
  "application/x-xz": "xz archive",
  "application/zip": "ZIP archive",
  "application/zstd": "Zstandard archive",
  "audio/basic": "AU audio",
  "audio/mpeg": "MP3 audio",
  "audio/ogg": "Ogg audio",
  "audio/opus": "Opus audio",
  "audio/webm": "WebM audio",
  "audio/x-pn-realaudio": "RealAudio",
  "directory": "Folder",
  "image/svg+xml": "SVG image",
  "image/vnd.microsoft.icon": "Icon",
  "image/webp": "WebP image",
  "inode/symlink": "Symbolic link",
  "message/rfc822": "Email",
  "model/gltf+json": "glTF model",
  "model/gltf-binary": "glTF model",
  "text/css": "CSS",
  "text/csv": "CSV table",
  "text/html": "HTML page",
  "text/javascript": "JavaScript",
  "text/markdown": "Markdown",
  "text/plain": "Text",
  "text/richtext": "Rich text",
  "text/rtf": "RTF document",
  "text/tab-separated-values": "TSV table",
  "text/vcard": "vCard",
  "text/vtt": "WebVTT subtitles",
  "text/x-python": "Python code",
  "text/x-vcard": "vCard",
  "text/xml": "XML",
  "video/quicktime": "QuickTime video",
  "video/webm": "WebM video",
  "video/x-msvideo": "AVI video",
};
// Types that exist in several versions.
const FAMILIES = [
  [/wordprocessingml|ms-?word/, "Word document"],
  [/spreadsheetml|ms-excel/, "Excel spreadsheet"],
  [/presentationml|ms-powerpoint/, "PowerPoint presentation"],
  [/opendocument\.(text|spreadsheet|presentation|graphics)/, "OpenDocument $1"],
  [/x-troff/, "troff document"],
];
const NOUNS = { audio: "audio", font: "font", image: "image", model: "model", text: "text", video: "video" };
const ACRONYM = /^([a-z]{1,4}|(?=.*\d)[a-z\d]{1,6})$/; // such as "toml" and "woff2"; others are words

/** Return a media type in words. */
export function typeWords(type) {
  const plain = type.split(";")[0].trim().toLowerCase();
  if (Object.hasOwn(WORDS, plain)) {
    return WORDS[plain];
  }
  for (const [pattern, words] of FAMILIES) {
    const match = pattern.exec(plain);
    if (match) {
      return words.replace("$1", match[1]);
    }
  }
  const [kind, rest = ""] = plain.split("/");
  // "application/vnd.debian.binary-package" is "Binary package file".
  const name = rest.replace(/\+.*/, "").split(".").at(-1).replace(/^(x-|vnd-|ms-)+|-compressed$/g, "");
  const [first, ...others] = name.match(/[a-z\d]+/g) ?? [];
  if (!first) {
    return "File";
  }
  const start = ACRONYM.test(first) ? first.toUpperCase() : first[0].toUpperCase() + first.slice(1);
  return [start, ...others, Object.hasOwn(NOUNS, kind) ? NOUNS[kind] : "file"].join(" ");
}
