// Checksums of a checkpoint's files, as `sha256sum` writes and checks them. A browser computes them
// for pages from a disk, from https and from localhost; elsewhere files have none.
const kSumsFile = "SHA256SUMS";

async function sumLine({ name, bytes }) {
  const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return `${[...sum].map((byte) => byte.toString(16).padStart(2, "0")).join("")}  ${name}\n`;
}

// Files [{name, bytes}] with their checksums.
export async function withSums(files) {
  if (!crypto.subtle) return files;
  const lines = await Promise.all(files.map(sumLine));
  return [...files, { name: kSumsFile, bytes: new TextEncoder().encode(lines.join("")) }];
}

// Throws Error if a file differs from its checksum. Files without one are not checked.
export async function checkSums(files) {
  const sums = files.find(({ name }) => name === kSumsFile);
  if (!sums || !crypto.subtle) return;
  const text = new TextDecoder().decode(sums.bytes);
  for (const file of files) {
    if (text.includes(`  ${file.name}\n`) && !text.includes(await sumLine(file)))
      throw new Error(`${file.name} is damaged: its checksum is not the one in ${kSumsFile}`);
  }
}
