// The icon of a media type, or a thumbnail of an image.

import { element, icon } from "./dom.js";

const LARGEST = 1024 * 1024; // bytes of an image that is loaded for its thumbnail
const SVG = "image/svg+xml"; // a short one may take minutes to draw, so that is done on request only
const ICONS = [
  [/^(directory|inode\/directory)/, "folder"],
  [/^image\//, "image"],
  [/^audio\//, "audio"],
  [/^video\//, "video"],
  [/^text\/(csv|tab-separated-values)/, "table"],
  [/^application\/pdf/, "pdf"],
  [/^(application\/json|.*\+json)/, "json"],
  [/^(text\/|application\/(javascript|xml|yaml|toml|x-sh))/, "text"],
  [/^application\/(zip|gzip|x-tar|x-bzip2|x-xz|zstd|x-7z-compressed|vnd\.ipld\.car)/, "archive"],
];

export const iconOf = (type) => ICONS.find(([pattern]) => pattern.test(type))?.[1] ?? "file";

/** Return a picture of a file: the image itself if it is small enough, else the icon of its type. */
export function thumbnail({ type, size, path }) {
  const name = iconOf(type);
  const frame = element("span", { className: `thumbnail ${name}` });
  if (name === "image" && size <= LARGEST && !type.startsWith(SVG)) {
    const image = element("img", { alt: "", loading: "lazy", decoding: "async", src: path });
    image.onerror = () => frame.replaceChildren(icon(name));
    frame.append(image);
  } else {
    frame.append(icon(name));
  }
  return frame;
}
