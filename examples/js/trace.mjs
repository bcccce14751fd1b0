// Writes traces (docs/traces.md) from JavaScript: whole steps of .npy files, and the manifest.
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";

const FORMATS = { Float64Array: "<f8", Float32Array: "<f4", Int32Array: "<i4", Int8Array: "|i1" };

function npy(data, shape) {
  const told = `{'descr': '${FORMATS[data.constructor.name]}', 'fortran_order': False, 'shape': (${shape.map((n) => n + ",").join("")})}`;
  const header = told.padEnd(Math.ceil((told.length + 11) / 64) * 64 - 11) + "\n";
  const begin = Buffer.from(`\x93NUMPY\x01\x00${String.fromCharCode(header.length & 255, header.length >> 8)}${header}`, "latin1");
  return Buffer.concat([begin, Buffer.from(data.buffer, data.byteOffset, data.byteLength)]);
}

/** A function (index, {"fc1.fwd": [data, shape], ...}) that writes one step; `manifest` tells the network. */
export function traceWriter(folder, manifest) {
  const steps = [];
  return (index, tensors) => {
    const step = `${folder}/step${String(index).padStart(3, "0")}`, told = {};
    rmSync(`${step}.part`, { recursive: true, force: true });
    mkdirSync(`${step}.part`, { recursive: true });
    for (const [key, [data, shape]] of Object.entries(tensors)) {
      if (!/^\w[\w.#+~-]{0,240}$/.test(key)) throw new Error(`${key}: write other characters as % and two hexadecimal digits`);
      writeFileSync(`${step}.part/${key}.npy`, npy(data, shape));
      told[key] = { dtype: data.constructor.name.replace("Array", "").toLowerCase(), shape };
    }
    rmSync(step, { recursive: true, force: true });
    renameSync(`${step}.part`, step);
    steps.push({ index, tensors: told });
    writeFileSync(`${folder}/trace.json.part`, JSON.stringify({ format: "backproof.trace.v1", ...manifest, steps }));
    renameSync(`${folder}/trace.json.part`, `${folder}/trace.json`);
  };
}
