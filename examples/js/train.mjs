// A small training program without a library: fc1 → tanh → fc2, squared error, gradient descent. `node train.mjs OUT [STEPS]`
import { traceWriter } from "./trace.mjs";

const [BATCH, INPUTS, HIDDEN, OUTPUTS, RATE] = [8, 3, 6, 2, 0.1];
const LAYER = { kind: "linear", hyper: {}, parameters: ["weight", "bias"] };
const MANIFEST = {
  framework: "plain JavaScript",
  batch: BATCH,
  scale: { lossgrad: BATCH, agrad: BATCH, grad_raw: BATCH }, // gradients are of the mean over the batch
  optimizer: { name: "sgd", lr: RATE },
  probes: [
    { name: "fc1", parents: ["input"], ...LAYER },
    { name: "act", parents: ["fc1"], kind: "tanh" },
    { name: "fc2", parents: ["act"], ...LAYER },
    { name: "loss", parents: ["fc2", "label"], kind: "mse_loss" },
  ],
};

let state = 1; // the same numbers every time
const random = () => (state = (state * 48271) % 2147483647) / 2147483647 - 0.5;
const numbers = (size, f = random) => Float32Array.from({ length: size }, (_, i) => f(i));

/** y[n, o] = b[o] + Σ x[n, i]·w[o, i] */
function linear(x, w, b, ins, outs) {
  const y = new Float32Array(BATCH * outs);
  for (let n = 0; n < BATCH; n++)
    for (let o = 0; o < outs; o++) {
      let sum = b[o];
      for (let i = 0; i < ins; i++) sum += x[n * ins + i] * w[o * ins + i];
      y[n * outs + o] = sum;
    }
  return y;
}

/** The gradients of x, w and b, from that of y. */
function linearBack(x, w, dy, ins, outs) {
  const [dx, dw, db] = [x.length, w.length, outs].map((size) => new Float64Array(size));
  for (let n = 0; n < BATCH; n++)
    for (let o = 0; o < outs; o++) {
      const d = dy[n * outs + o];
      db[o] += d;
      for (let i = 0; i < ins; i++) {
        dx[n * ins + i] += d * w[o * ins + i];
        dw[o * ins + i] += d * x[n * ins + i];
      }
    }
  return [dx, dw, db].map((found) => Float32Array.from(found));
}

const parameters = {
  "fc1.weight": [numbers(HIDDEN * INPUTS), [HIDDEN, INPUTS]],
  "fc1.bias": [numbers(HIDDEN), [HIDDEN]],
  "fc2.weight": [numbers(OUTPUTS * HIDDEN), [OUTPUTS, HIDDEN]],
  "fc2.bias": [numbers(OUTPUTS), [OUTPUTS]],
};

function step() {
  const seen = {};
  const see = (key, data, shape) => (seen[key] = [data, shape]);
  const seeAll = (phase, values) => {
    for (const [name, [data, shape]] of Object.entries(values)) see(name.replace(".", `.${phase}.`), Float32Array.from(data), shape);
  };
  seeAll("w_before", parameters);
  const [[w1], [b1], [w2], [b2]] = Object.values(parameters);
  const x = numbers(BATCH * INPUTS), t = numbers(BATCH * OUTPUTS);
  const h = linear(x, w1, b1, INPUTS, HIDDEN);
  const a = h.map(Math.tanh);
  const y = linear(a, w2, b2, HIDDEN, OUTPUTS);
  const loss = numbers(1, () => y.reduce((sum, v, i) => sum + (v - t[i]) ** 2, 0) / y.length);
  see("input.fwd", x, [BATCH, INPUTS]);
  see("label.fwd", t, [BATCH, OUTPUTS]);
  see("fc1.fwd", h, [BATCH, HIDDEN]);
  see("act.fwd", a, [BATCH, HIDDEN]);
  see("fc2.fwd", y, [BATCH, OUTPUTS]);
  see("loss.fwd", loss, []);

  const dy = y.map((v, i) => (2 * (v - t[i])) / y.length);
  const [da, dw2, db2] = linearBack(a, w2, dy, HIDDEN, OUTPUTS);
  const dh = da.map((d, i) => d * (1 - a[i] * a[i]));
  const [dx, dw1, db1] = linearBack(x, w1, dh, INPUTS, HIDDEN);
  see("loss.lossgrad", dy, [BATCH, OUTPUTS]);
  see("fc2.agrad", dy, [BATCH, OUTPUTS]);
  see("act.agrad", da, [BATCH, HIDDEN]);
  see("fc1.agrad", dh, [BATCH, HIDDEN]);
  see("input.agrad", dx, [BATCH, INPUTS]);

  const gradients = [dw1, db1, dw2, db2];
  const named = Object.fromEntries(Object.entries(parameters).map(([name, [, shape]], i) => [name, [gradients[i], shape]]));
  seeAll("grad_raw", named);
  seeAll("grad_scaled", named);
  Object.values(parameters).forEach(([data], k) => data.forEach((_, i) => (data[i] -= RATE * gradients[k][i])));
  seeAll("w_after", parameters);
  return [seen, loss[0]];
}

const [out, steps] = [process.argv[2], Number(process.argv[3] ?? 2)];
const write = out ? traceWriter(out, MANIFEST) : () => {};
for (let index = 0; index < steps; index++) {
  const [seen, loss] = step();
  write(index, seen);
  console.log(`step ${index}: loss ${loss.toFixed(6)}`);
}
