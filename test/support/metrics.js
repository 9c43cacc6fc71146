// @ts-check
// The one reader of Prometheus text pages, for tests, load tools and, in k6, load scripts.

/** `text`: name and labels as they stand there. @typedef {{ name: string, text: string, labels: Readonly<Record<string, string>>, value: number }} Series */

const LINE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: \d+)?$/
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g
const ESCAPES = /** @type {Readonly<Record<string, string>>} */ ({ n: '\n', '"': '"', '\\': '\\' })

/** @param {string} text @returns {Series[]} */
export function parsePage(text) {
  const list = []
  for (const line of text.split('\n')) {
    const found = line.startsWith('#') ? null : LINE.exec(line.trimEnd())
    if (found === null) continue
    /** @type {Record<string, string>} */
    const labels = {}
    for (const [, name, value] of (found[2] ?? '').matchAll(LABEL)) {
      labels[name] = value.replace(/\\(.)/g, (_, escaped) => ESCAPES[escaped] ?? escaped)
    }
    list.push({
      name: found[1],
      text: line.slice(0, line.lastIndexOf(found[3]) - 1),
      labels,
      value: Number(found[3].replace('Inf', 'Infinity')),
    })
  }
  return list
}

/** The sum of a name's series, over every node; NaN where there is none. @param {readonly Series[]} page @param {string} name @param {Readonly<Record<string, string>>} [labels] */
export function sumOf(page, name, labels = {}) {
  const wanted = Object.entries(labels)
  const found = page.filter(
    (series) => series.name === name && wanted.every(([label, value]) => series.labels[label] === value),
  )
  return found.length === 0 ? Number.NaN : found.reduce((sum, { value }) => sum + value, 0)
}

/** Every series as it stands there, and for each name the sum of its series. @param {string} text @returns {Map<string, number>} */
export function readMetrics(text) {
  /** @type {Map<string, number>} */
  const values = new Map()
  for (const { name, text: series, value } of parsePage(text)) {
    if (series !== name) values.set(series, value)
    values.set(name, (values.get(name) ?? 0) + value)
  }
  return values
}
