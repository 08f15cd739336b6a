// Runs tests by name, says which fail, and ends with 1 if one does.
export async function runAll(tests) {
  let failures = 0;
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test();
      console.log(`ok: ${name}`);
    } catch (error) {
      ++failures;
      console.error(`FAILED: ${name}\n${error.stack}`);
    }
  }
  process.exit(failures > 0 ? 1 : 0);
}
