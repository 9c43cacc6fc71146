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

/** @param {readonly Entry[]} entries @param {(kind: string) => string | undefined} hashOf of the files as they are; undefined: there is no such kind any more */
export function page(entries, hashOf) {
  const rows = entries
    .toSorted((one, other) => one.kind.localeCompare(other.kind) || one.commit.localeCompare(other.commit))
    .map(({ kind, hash, commit, amount, unit, cpuSeconds, found }) => {
      const current = hashOf(kind) === hash ? 'yes' : 'no'
      const minutes = (cpuSeconds / 60).toFixed(0)
      const faults = found.length === 0 ? 'nothing' : found.map((command) => `\`${command}\``).join(' ')
      return `|${kind}|${amount.toLocaleString('en')} ${unit}|${minutes}|${commit}|${hash.slice(0, 8)}|${current}|${faults}|`
    })
  const ofNow = entries.filter(({ kind, hash }) => hashOf(kind) === hash)
  const hours = (/** @type {readonly Entry[]} */ some) => {
    const simulated = some.filter(({ kind }) => kind.startsWith('simulate '))
    return (simulated.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0) / 3600).toFixed(1)
  }
  return `# Proof

What ran beside the tests, by turns: \`npm run prove -- --hours N --markdown\`, which goes on where it stopped. A kind's hash is of the files
that decide what it finds; "as it is": they are this commit's. What was found has the command that shows it.

Simulator: ${hours(entries)} core-hours, ${hours(ofNow)} of them on the files as they are.

|what|how much|CPU minutes|last commit|hash|as it is|found|
|---|---|---|---|---|---|---|
${rows.join('\n')}
`
}
