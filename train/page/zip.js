// Archives in the ZIP format (PKWARE's APPNOTE, sections 4.3 and 4.4): written without compression,
// read with and without.

const kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
const kEndSize = 22, kLongestComment = 65535;
const kVersion = 20; // 2.0: files in folders
const kUtf8Names = 0x800;
const kStored = 0, kDeflated = 8; // methods of compression

const crcTable = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; ++k) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

// CRC-32 of bytes, as an unsigned number.
export function crc32(bytes) {
  let crc = -1;
  for (const byte of bytes) crc = crcTable[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

// Writes little-endian numbers of 2 and 4 bytes one after another.
function record(parts) {
  const size = parts.reduce((sum, [, bytes]) => sum + bytes, 0);
  const out = new DataView(new ArrayBuffer(size));
  let at = 0;
  for (const [value, bytes] of parts) {
    if (bytes === 2) out.setUint16(at, value, true);
    else out.setUint32(at, value, true);
    at += bytes;
  }
  return new Uint8Array(out.buffer);
}

function dosTime(date) {
  const time = (date.getHours() << 11) | (date.getMinutes() << 5) | (date.getSeconds() >> 1);
  const day = ((date.getFullYear() - 1980) << 9) | ((date.getMonth() + 1) << 5) | date.getDate();
  return [[time, 2], [day, 2]];
}

// Archive of files [{name, bytes}], as a list of pieces for a Blob.
export function zipped(files, date = new Date()) {
  const pieces = [], directory = [];
  let offset = 0, directorySize = 0;
  for (const { name, bytes } of files) {
    const shown = new TextEncoder().encode(name);
    const common = [[kVersion, 2], [kUtf8Names, 2], [kStored, 2], ...dosTime(date),
      [crc32(bytes), 4], [bytes.length, 4], [bytes.length, 4], [shown.length, 2], [0, 2]];
    const head = record([[kLocal, 4], ...common]);
    pieces.push(head, shown, bytes);
    const entry = record([[kCentral, 4], [kVersion, 2], ...common, [0, 2], [0, 2], [0, 2], [0, 4],
      [offset, 4]]);
    directory.push(entry, shown);
    directorySize += entry.length + shown.length;
    offset += head.length + shown.length + bytes.length;
  }
  const end = record([[kEnd, 4], [0, 2], [0, 2], [files.length, 2], [files.length, 2],
    [directorySize, 4], [offset, 4], [0, 2]]);
  return [...pieces, ...directory, end];
}

// Bytes that were deflated (RFC 1951), as a stream in the gzip format (RFC 1952), whose end checks
// them.
async function inflated(packed, checksum, size) {
  const head = record([[0x8b1f, 2], [kDeflated, 2], [0, 4], [0xff00, 2]]);
  const gzip = new Blob([head, packed, record([[checksum, 4], [size, 4]])]);
  const bytes = gzip.stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(bytes).arrayBuffer());
}

// Promise of the files [{name, bytes}] of an archive. Throws Error for what is no archive, and for
// what is packed otherwise than stored or deflated.
export async function unzipped(archive) {
  const view = new DataView(archive.buffer, archive.byteOffset, archive.byteLength);
  let end = archive.length - kEndSize;
  const first = Math.max(0, end - kLongestComment);
  while (end >= first && view.getUint32(end, true) !== kEnd) --end;
  if (end < first) throw new Error("this is no .zip file, or its end is missing");
  const count = view.getUint16(end + 10, true);
  let at = view.getUint32(end + 16, true);
  const files = [];
  for (let i = 0; i < count; ++i) {
    if (at + 46 > archive.length || view.getUint32(at, true) !== kCentral)
      throw new Error("the directory of this .zip file is damaged");
    const u16 = (place) => view.getUint16(at + place, true);
    const u32 = (place) => view.getUint32(at + place, true);
    const method = u16(10), checksum = u32(16), packedSize = u32(20), size = u32(24);
    const nameSize = u16(28), local = u32(42);
    const name = new TextDecoder().decode(archive.subarray(at + 46, at + 46 + nameSize));
    if (method !== kStored && method !== kDeflated) {
      throw new Error(`${name} is compressed in this .zip file in a way that this page does not ` +
        "know; unpack it and drop its files");
    }
    at += 46 + nameSize + u16(30) + u16(32);
    // Folders, and what macOS adds to an archive: attributes of files, under their names.
    if (name.endsWith("/") || name.startsWith("__MACOSX/")) continue;
    const from = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    const packed = archive.slice(from, from + packedSize);
    const bytes = method === kStored ? packed
      : await inflated(packed, checksum, size).catch(() => new Uint8Array());
    if (bytes.length !== size || crc32(bytes) !== checksum)
      throw new Error(`${name} is damaged in this .zip file`);
    files.push({ name, bytes });
  }
  return files;
}
