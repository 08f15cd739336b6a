// Archives in the ZIP format (PKWARE's APPNOTE, sections 4.3 and 4.4): written with compression,
// read with and without. The browser compresses and computes checksums: a gzip file has both.

const kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
const kEndSize = 22, kLongestComment = 65535;
const kVersion = 20; // 2.0: files in folders
const kUtf8Names = 0x800;
const kStored = 0, kDeflated = 8; // methods of compression

const kGzipHead = 10, kGzipEnd = 8; // bytes around what a gzip file has deflated

const through = async (bytes, stream) =>
  new Uint8Array(await new Response(new Blob(bytes).stream().pipeThrough(stream)).arrayBuffer());

// Bytes in the gzip format (RFC 1952), which has their CRC-32 near its end.
const gzipped = (bytes) => through([bytes], new CompressionStream("gzip"));
const checksumOf = (gzip) => new DataView(gzip.buffer).getUint32(gzip.length - kGzipEnd, true);
const sizeOf = (pieces) => pieces.reduce((sum, { length }) => sum + length, 0);

// Writes little-endian numbers of 2 and 4 bytes one after another.
const record = (parts) => Uint8Array.from(parts.flatMap(([value, bytes]) =>
  Array.from({ length: bytes }, (_, i) => value >>> 8 * i)));

function dosTime(date) {
  const time = (date.getHours() << 11) | (date.getMinutes() << 5) | (date.getSeconds() >> 1);
  const day = ((date.getFullYear() - 1980) << 9) | ((date.getMonth() + 1) << 5) | date.getDate();
  return [[time, 2], [day, 2]];
}

// Archive of files [{name, bytes}], as a list of pieces for a Blob.
export async function zipped(files, date = new Date()) {
  const pieces = [], directory = [];
  for (const { name, bytes } of files) {
    const gzip = await gzipped(bytes), packed = gzip.subarray(kGzipHead, -kGzipEnd);
    const shown = new TextEncoder().encode(name), offset = sizeOf(pieces);
    const common = [[kVersion, 2], [kUtf8Names, 2], [kDeflated, 2], ...dosTime(date),
      [checksumOf(gzip), 4], [packed.length, 4], [bytes.length, 4], [shown.length, 2], [0, 2]];
    pieces.push(record([[kLocal, 4], ...common]), shown, packed);
    directory.push(record([[kCentral, 4], [kVersion, 2], ...common, [0, 2], [0, 2], [0, 2], [0, 4],
      [offset, 4]]), shown);
  }
  return [...pieces, ...directory, record([[kEnd, 4], [0, 2], [0, 2], [files.length, 2],
    [files.length, 2], [sizeOf(directory), 4], [sizeOf(pieces), 4], [0, 2]])];
}

// Bytes that were deflated (RFC 1951), as a stream in the gzip format, whose end checks them.
const inflated = (packed, checksum, size) => through([
  record([[0x8b1f, 2], [kDeflated, 2], [0, 4], [0xff00, 2]]), packed,
  record([[checksum, 4], [size, 4]])], new DecompressionStream("gzip"));

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
      : await inflated(packed, checksum, size).catch(() => null);
    if (bytes === null || bytes.length !== size ||
        method === kStored && checksumOf(await gzipped(bytes)) !== checksum)
      throw new Error(`${name} is damaged in this .zip file`);
    files.push({ name, bytes });
  }
  return files;
}
