// @ts-check
// What was run until now, of each kind on each state of its rooms, and what comes next.

/**
 * @typedef {object} Entry
 * @property {string} kind
 * @property {string} hash of the files in its rooms
 * @property {string} commit the last on which it ran with these files
 * @property {number} amount
 * @property {string} unit
 * @property {number} cpuSeconds of all processes
 * @property {number} next the seed, or the place in a list, with which it goes on
 * @property {readonly string[]} found a command for each run that found a fault
 */

/** @param {readonly Entry[]} entries @param {string} kind @param {string} hash */
export const entryOf = (entries, kind, hash) => entries.find((entry) => entry.kind === kind && entry.hash === hash)

/** Where a kind goes on: seeds are used once, whatever the state of the rooms; a list begins anew with each state. @param {readonly Entry[]} entries @param {import('./kinds.js').Kind} kind @param {string} hash */
export function nextOf(entries, { name, most }, hash) {
  if (most !== undefined) return entryOf(entries, name, hash)?.next ?? 0
  return Math.max(1, ...entries.filter(({ kind }) => kind === name).map(({ next }) => next))
}

/**
 * The kind that has had the least of its share; undefined: all are done.
 * @template {import('./kinds.js').Kind} K
 * @param {readonly K[]} kinds
 * @param {readonly Entry[]} entries
 * @param {(kind: K) => string} hashOf
 * @returns {K | undefined}
 */
export function choose(kinds, entries, hashOf) {
  const had = (/** @type {K} */ kind) => (entryOf(entries, kind.name, hashOf(kind))?.cpuSeconds ?? 0) / kind.share
  const open = kinds.filter((kind) => kind.most === undefined || nextOf(entries, kind, hashOf(kind)) < kind.most)
  return open.toSorted((one, other) => had(one) - had(other))[0]
}

/** @param {readonly Entry[]} entries @param {Entry} run what has run now @returns {Entry[]} */
export function withRun(entries, run) {
  const before = entryOf(entries, run.kind, run.hash)
  const others = entries.filter((entry) => entry !== before)
  if (before === undefined) return [...others, run]
  const sums = { amount: before.amount + run.amount, cpuSeconds: before.cpuSeconds + run.cpuSeconds }
  return [...others, { ...run, ...sums, found: [...before.found, ...run.found] }]
}

/** One row a kind. @param {readonly Entry[]} entries @param {(kind: string) => string | undefined} hashOf of the files as they are; undefined: there is no such kind any more */
export function page(entries, hashOf) {
  const ofNow = entries.filter(({ kind, hash }) => hashOf(kind) === hash)
  const names = [...new Set(entries.map(({ kind }) => kind))].sort()
  const rows = names.map((name) => {
    const [all, now] = [entries, ofNow].map((some) => some.filter(({ kind }) => kind === name))
    const { commit, hash, unit } = now[0] ?? all[all.length - 1]
    const found = all.flatMap((entry) => entry.found).map((command) => `\`${command}\``)
    const amounts = [amountOf(all), `${amountOf(now)} ${unit}`, minutesOf(all), minutesOf(now)]
    return `|${[name, ...amounts, commit, hash.slice(0, 8), found.join(' ') || 'nothing'].join('|')}|`
  })
  const simulated = [entries, ofNow].map((some) => some.filter(({ kind }) => kind.startsWith('simulate ')))
  const [all, now] = simulated.map((some) => (secondsOf(some) / 3600).toFixed(1))
  return `# Proof

What ran beside the tests, by turns: \`npm run prove -- --hours N --markdown\`, which goes on where it stopped. The hash is of the files
that decide what a kind finds; "now": on these files as they are. What was found has the command that shows it.

Simulator: ${all} core-hours, ${now} of them on the files as they are.

|what|in all|now|CPU minutes|now|commit|hash|found|
|---|---|---|---|---|---|---|---|
${rows.join('\n')}
`
}

/** @param {readonly Entry[]} entries */
const amountOf = (entries) => entries.reduce((sum, { amount }) => sum + amount, 0).toLocaleString('en')

/** @param {readonly Entry[]} entries */
const secondsOf = (entries) => entries.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0)

/** @param {readonly Entry[]} entries */
const minutesOf = (entries) => (secondsOf(entries) / 60).toFixed(0)
