// The forecast of speculation on hardware that is not at hand: engine/draftscope/forecast in the browser, from its
// tables. Pure. A test holds each number to Python's.

/** {refused: a sentence}, or the forecast with every term: of the scenario {model, drafter, card, engine, tp (0: as many
 *  cards as the weights need), concurrency, context, answer, tau (0: the prior), text}. */
export function forecast(tables, wanted) {
  const scenario = read(tables, wanted);
  if (scenario.refused) return scenario;
  const { target, plan, on, n, context, answer } = scenario;
  const plain = plainMs(scenario);
  const speedup = speedupOf(scenario);
  const rate = (1e3 * n) / plain;
  const band = (value) => Object.fromEntries(Object.entries(value).map(([end, ratio]) => [end, rate * ratio]));
  return {
    target,
    plan,
    on,
    n,
    context,
    answer,
    speedup,
    tau: scenario.tau,
    known: Boolean(wanted.tau),
    plainMs: plain,
    draftingMs: draftingMs(scenario),
    verifyMs: forwardMs(scenario, target, plan.rows),
    roundMs: roundMs(scenario),
    plainTokens: rate,
    tokens: band(speedup),
    stopsAt: stopsAt(scenario),
    fits: fitting(scenario),
    held: tables.held[`${plan.kind}/${on.engine.name}/${on.card.name}`] ?? "",
  };
}

/** The speedup at other values of one field of the scenario; null where it cannot be. */
export function speedupAt(tables, wanted, change) {
  const scenario = read(tables, { ...wanted, ...change });
  return scenario.refused ? null : speedupOf(scenario);
}

function read(tables, wanted) {
  const c = tables.constants;
  const target = tables.models[wanted.model];
  const [card, engine] = [tables.cards[wanted.card], tables.engines[wanted.engine]];
  const plan = tables.plans[wanted.model][wanted.drafter][Number(engine.trees)];
  if (typeof plan === "string") return { refused: plan };
  const draft = plan.draft === null ? null : tables.drafts[plan.draft];
  if (wanted.tau && !(wanted.tau >= 1 && wanted.tau <= plan.depth + 1))
    return { refused: `${wanted.tau} tokens a round: it can write from 1 to ${plan.depth + 1}.` };
  const tau = wanted.tau ? { middle: wanted.tau, low: wanted.tau, high: wanted.tau } : prior(tables, plan, wanted.text);
  if (!tau)
    return { refused: `Nobody has published tokens a round of ${plan.kind} on ${wanted.text}; give them (tau).` };
  const on = spreadOver(c, card, engine, target, wanted.tp);
  const scenario = {
    c,
    target,
    plan,
    draft,
    on,
    tau,
    n: wanted.concurrency,
    context: wanted.context,
    answer: wanted.answer,
  };
  const refused = refuseSharing(c, target, on) || refuseSize(scenario);
  return refused ? { refused } : scenario;
}

// Tokens a round.

/** Of a chain: 1 + alpha + ... + alpha^depth. */
const tauOf = (alpha, depth) => Array.from({ length: depth + 1 }, (_, k) => alpha ** k).reduce((a, b) => a + b, 0);

function prior({ priors, constants }, plan, text) {
  if (["model", "parallel"].includes(plan.shape) && plan.draft !== null) return null;
  const tree = String(Number(plan.branches));
  const row = priors.find((one) => one.kind === plan.kind && one.tree === tree && one.text === text);
  if (!row) return null;
  const half = constants.LEVEL_Z * Number(row.spread);
  const at = (logit) => tauOf(1 / (1 + Math.exp(-logit)), plan.depth);
  const middle = Number(row.logit);
  return { middle: at(middle), low: at(middle - half), high: at(middle + half) };
}

// Cards.

const linked = (c, card) => (!card.link_gb_s ? 1 : card.link_gb_s >= c.RACK_GB_S ? c.RACK : c.SERVER);

function spreadOver(c, card, engine, target, tp) {
  if (tp) return { card, engine, tensor: tp, stages: 1 };
  let count = 1;
  while (count * card.memory_gb * 1e9 < 1.2 * target.parameters * target.weight_bytes && count < 64) count *= 2;
  if (!engine.by_tensor) return { card, engine, tensor: 1, stages: count };
  const shared = Math.min(count, linked(c, card));
  return { card, engine, tensor: shared, stages: Math.floor(count / shared) };
}

const cardsOf = ({ tensor, stages }) => tensor * stages;

function refuseSharing(c, target, on) {
  const most = linked(c, on.card);
  if (cardsOf(on) > 1 && most === 1)
    return `${target.name} on ${cardsOf(on)} x ${on.card.name}: they have no link to one another.`;
  if (on.tensor > most) return `${on.tensor} x ${on.card.name} cannot share a layer: up to ${most} of them are linked.`;
  return divides(target, on.tensor) ? "" : `${on.tensor} cards cannot share a layer of ${target.name}.`;
}

function divides(target, count) {
  const caches = target.latent || target.kv_heads % count === 0 || count % target.kv_heads === 0;
  return caches && (target.mixed || target.heads % count === 0);
}

const cacheCopies = (model, tensor) => (model.latent ? 1 : Math.max(1, tensor / Math.max(model.kv_heads, 1)));

function fitting({ target, plan, draft, on, context }) {
  const separate = ["model", "parallel"].includes(plan.shape) && draft;
  const weights = [target, ...(separate ? [draft] : [])].map((model) => model.parameters * model.weight_bytes);
  const left = cardsOf(on) * on.card.memory_gb - weights.reduce((a, b) => a + b, 0) / 1e9;
  return Math.floor(left / ((context * target.cache_bytes * cacheCopies(target, on.tensor)) / 1e9));
}

function refuseSize(scenario) {
  const fits = fitting(scenario);
  if (fits >= scenario.n) return "";
  const remedy = fits > 0 ? `more cards, or at most ${fits} requests` : "more cards, or a smaller model";
  const { target, on } = scenario;
  return `${target.name} and these caches do not fit on ${cardsOf(on)} x ${on.card.name}; give ${remedy}.`;
}

// Milliseconds.

/** Weights of experts that a forward of `rows` rows in each of `n` sequences reads. */
function expertsRead(c, model, n, rows) {
  if (!model.experts) return 0;
  const share = (1 - model.chosen / model.experts) ** (n * rows ** c.SEQUENCE_POWER);
  return model.expert_layers * model.experts * (1 - share) * model.expert;
}

function forwardMs({ c, on, n, context }, model, rows) {
  const bytes = on.card.gb_s * 1e9 * c.BANDWIDTH * on.tensor;
  const work = on.card.tflop_s * 1e12 * c.COMPUTE * on.tensor;
  const every = n * rows;
  const reading = model.every_row + (expertsRead(c, model, n, rows) * c.BANDWIDTH) / c.EXPERT_BANDWIDTH;
  const weights = Math.max((reading * model.weight_bytes) / bytes, (2 * model.active * every) / work);
  const attention = 4 * model.attended * model.heads * model.head_dim * context * every;
  const kept = n * context * model.cache_bytes * cacheCopies(model, on.tensor);
  const caches = Math.max(kept / bytes, attention / work);
  const launches = model.layers * on.engine.layer_ms + model.expert_layers * c.EXPERT_MS;
  return 1e3 * (weights + caches) + launches + linksMs(c, model, on, every);
}

function linksMs(c, model, on, every) {
  const passed = (2 * model.d * every) / (Math.max(on.card.link_gb_s, 1) * 1e6);
  const latency = on.card.link_gb_s >= c.NVLINK_GB_S ? c.REDUCE_MS : c.HOP_MS;
  const shared = 2 * model.layers * (latency + ((2 * (on.tensor - 1)) / on.tensor) * passed);
  return (on.tensor > 1 ? shared : 0) + (on.stages - 1) * (c.HOP_MS + passed);
}

const plainMs = (scenario) => {
  const { engine } = scenario.on;
  return forwardMs(scenario, scenario.target, 1) + engine.step_ms + scenario.n * engine.sequence_ms;
};

function draftingMs(scenario) {
  const { plan, draft, on } = scenario;
  if (!draft) return on.engine.draft_ms;
  return plan.steps * (forwardMs(scenario, draft, plan.width) + on.engine.draft_ms);
}

function roundMs(scenario) {
  const { engine } = scenario.on;
  const host = engine.step_ms + engine.round_ms + 2 * scenario.n * engine.sequence_ms;
  return draftingMs(scenario) + forwardMs(scenario, scenario.target, scenario.plan.rows) + host;
}

// The speedup.

/** A band over a cost that is known up to a factor exp(+-spread); both errors are independent. */
function dividedBy(band, cost, spread) {
  const lower = Math.hypot(Math.log(band.middle / band.low), spread);
  const upper = Math.hypot(Math.log(band.high / band.middle), spread);
  const middle = band.middle / cost;
  return { middle, low: middle * Math.exp(-lower), high: middle * Math.exp(upper) };
}

function speedupOf(scenario) {
  const { tau, answer, target, draft, c } = scenario;
  const [plain, round] = [plainMs(scenario), roundMs(scenario)];
  const ratio = dividedBy(tau, round / plain, c.COST_SPREAD);
  if (!answer) return ratio;
  const reading = { ...scenario, n: 1, context: 0 };
  const once = forwardMs(reading, target, scenario.context);
  const more = draft ? forwardMs(reading, draft, scenario.context) : 0;
  const [steps, least] = [(answer - 1) * plain, Math.min(answer - 1, 1) * round];
  const whole = (gain) => (once + steps) / (once + more + Math.max(steps / gain, least));
  return { middle: whole(ratio.middle), low: whole(ratio.low), high: whole(ratio.high) };
}

/** Requests at once from which on the middle and both ends are below 1; null where the middle never is. */
function stopsAt(scenario) {
  const sizes = [...new Set(Array.from({ length: 97 }, (_, k) => Math.round(2 ** (k / 8))))];
  const first = (end) => sizes.find((n) => speedupOf({ ...scenario, n })[end] < 1) ?? null;
  const middle = first("middle");
  return middle && { middle, low: first("low"), high: first("high") };
}
