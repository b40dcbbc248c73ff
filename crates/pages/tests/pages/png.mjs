// A PNG as Chromium makes them, with 256 colours: a third of its size, for pictures of pages, which have few.
import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
const COLOURS = 256;

function* chunks(png) {
  for (let at = SIGNATURE.length; at < png.length;) {
    const length = png.readUInt32BE(at);
    yield { type: png.toString("latin1", at + 4, at + 8), data: png.subarray(at + 8, at + 8 + length) };
    at += length + 12;
  }
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body) >>> 0);
  return Buffer.concat([length, body, sum]);
}

function paeth(left, up, corner) {
  const [l, u, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
  return l <= u && l <= c ? left : u <= c ? up : corner;
}

// The bytes of its pixels, so many of each.
function pixels(packed, width, height, size) {
  const line = width * size, all = Buffer.alloc(line * height);
  for (let row = 0; row < height; row += 1) {
    const filter = packed[row * (line + 1)], from = row * (line + 1) + 1, to = row * line;
    for (let at = 0; at < line; at += 1) {
      const left = at >= size ? all[to + at - size] : 0, up = row ? all[to + at - line] : 0;
      const corner = row && at >= size ? all[to + at - line - size] : 0;
      all[to + at] = packed[from + at] + [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
    }
  }
  return all;
}

function distance(one, other) {
  return ((one >> 16) - (other >> 16)) ** 2 + ((one >> 8 & 255) - (other >> 8 & 255)) ** 2 + ((one & 255) - (other & 255)) ** 2;
}

export function smaller(png) {
  const all = [...chunks(png)], head = all[0].data;
  const [width, height, depth, kind] = [head.readUInt32BE(0), head.readUInt32BE(4), head[8], head[9]];
  if (depth !== 8 || ![2, 6].includes(kind) || head[12] !== 0) throw new Error("a PNG of another kind");
  const size = kind === 2 ? 3 : 4;
  const data = pixels(inflateSync(Buffer.concat(all.filter((it) => it.type === "IDAT").map((it) => it.data))), width, height, size);
  const counts = new Map(), colour = (at) => data[at] << 16 | data[at + 1] << 8 | data[at + 2];
  for (let at = 0; at < data.length; at += size) counts.set(colour(at), (counts.get(colour(at)) || 0) + 1);
  const palette = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, COLOURS).map(([it]) => it);
  const places = new Map(palette.map((it, place) => [it, place]));
  const place = (wanted) => {
    if (!places.has(wanted)) {
      let best = 0;
      palette.forEach((it, at) => { if (distance(it, wanted) < distance(palette[best], wanted)) best = at; });
      places.set(wanted, best);
    }
    return places.get(wanted);
  };
  const rows = Buffer.alloc((width + 1) * height);
  for (let row = 0; row < height; row += 1) {
    for (let at = 0; at < width; at += 1) rows[row * (width + 1) + 1 + at] = place(colour((row * width + at) * size));
  }
  const kept = Buffer.from(head);
  kept[9] = 3;
  const colours = Buffer.from(palette.flatMap((it) => [it >> 16, it >> 8 & 255, it & 255]));
  return Buffer.concat([SIGNATURE, chunk("IHDR", kept), chunk("PLTE", colours), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}
