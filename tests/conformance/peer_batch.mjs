// Runs many command lines of the peer's CLI in one process: [[argument, ...], ...] as JSON on stdin,
// [{exit, out, err}, ...] as JSON on stdout. The command line is a script that ends in process.exit, so each run
// imports it anew (its libraries stay loaded) with an exit that throws.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const script = pathToFileURL(process.argv[2]).href;
const commands = JSON.parse(readFileSync(0, "utf8"));
const [node, , ...rest] = process.argv;
const write = process.stdout.write.bind(process.stdout);
const exit = process.exit.bind(process);
class Exit { constructor(code) { this.code = code; } }

const results = [];
for (const [index, command] of commands.entries()) {
  const texts = { out: "", err: "" };
  process.argv = [node, script, ...command];
  process.stdout.write = (text) => { texts.out += text; return true; };
  process.stderr.write = (text) => { texts.err += text; return true; };
  process.exit = (code) => { throw new Exit(code ?? process.exitCode ?? 0); };
  let code = 0;
  try {
    await import(`${script}?run=${index}`);
  } catch (thrown) {
    code = thrown instanceof Exit ? thrown.code : 70;
    if (!(thrown instanceof Exit)) texts.err += String(thrown);
  }
  results.push({ exit: code, ...texts });
}
process.exit = exit;
write(JSON.stringify(results));
