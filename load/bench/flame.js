// @ts-check
// A profile of V8 as a flame graph: one SVG that needs nothing else. Each box is a function, as wide as the share of the time in it
// and in what it called; a box tells its name and share when it is pointed at.

const WIDTH = 1200
const ROW = 17
/** Narrower boxes are left out: nobody can read them. */
const LEAST_WIDTH = 0.4
const CHARACTER = 6.6

/** @typedef {{ id: number, callFrame: { functionName: string, url: string, lineNumber: number }, children?: number[] }} ProfileNode */
/** @typedef {{ nodes: ProfileNode[], samples: number[], timeDeltas: number[] }} Profile what `node --cpu-prof` writes */
/** @typedef {{ name: string, x: number, depth: number, width: number, share: number }} Box */

/** @param {Profile} profile @returns {Box[]} from the root down; time in which the thread waited is left out */
export function boxesOf({ nodes, samples, timeDeltas }) {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const idle = new Set(nodes.filter(({ callFrame }) => callFrame.functionName === '(idle)').map(({ id }) => id))
  /** @type {Map<number, number>} */
  const own = new Map()
  for (const [at, id] of samples.entries()) {
    if (!idle.has(id)) own.set(id, (own.get(id) ?? 0) + Math.max(0, timeDeltas[at]))
  }
  /** @type {Map<number, number>} */
  const totals = new Map()
  /** Children have larger ids than the node that calls them. */
  for (const { id, children = [] } of [...nodes].toSorted((one, other) => other.id - one.id)) {
    totals.set(
      id,
      children.reduce((sum, child) => sum + (totals.get(child) ?? 0), own.get(id) ?? 0),
    )
  }
  const all = totals.get(nodes[0].id) ?? 0
  /** @type {Box[]} */
  const boxes = []
  const place = (/** @type {number} */ id, /** @type {number} */ x, /** @type {number} */ depth) => {
    const total = totals.get(id) ?? 0
    const width = all > 0 ? (total / all) * WIDTH : 0
    const node = byId.get(id)
    if (node === undefined || width < LEAST_WIDTH) return
    boxes.push({ name: nameOf(node), x, depth, width, share: total / all })
    let childX = x
    for (const child of node.children ?? []) {
      place(child, childX, depth + 1)
      childX += ((totals.get(child) ?? 0) / all) * WIDTH
    }
  }
  place(nodes[0].id, 0, 0)
  return boxes
}

/** @param {ProfileNode} node */
function nameOf({ callFrame: { functionName, url, lineNumber } }) {
  const file = url.split('/').slice(-2).join('/')
  return `${functionName || '(anonymous)'}${file === '' ? '' : ` ${file}:${lineNumber + 1}`}`
}

/** @param {string} title @param {Profile} profile */
export function flameGraph(title, profile) {
  const boxes = boxesOf(profile)
  const height = (2 + Math.max(0, ...boxes.map(({ depth }) => depth + 1))) * ROW
  const drawn = boxes.map(({ name, x, depth, width, share }) => {
    const y = height - (depth + 1) * ROW
    const letters = Math.floor(width / CHARACTER)
    const label =
      letters < 3 ? '' : `<text x="${(x + 3).toFixed(1)}" y="${y + 12}">${escaped(name.slice(0, letters))}</text>`
    const tip = `<title>${escaped(name)}: ${(share * 100).toFixed(1)}%</title>`
    const place = `x="${x.toFixed(1)}" y="${y}" width="${Math.max(0.3, width - 0.5).toFixed(1)}" height="${ROW - 1}"`
    return `<g>${tip}<rect ${place} fill="${colourOf(name)}"/>${label}</g>`
  })
  const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="monospace" font-size="11">`
  return `${head}\n<rect width="100%" height="100%" fill="#fff"/>\n<text x="4" y="13">${escaped(title)}</text>\n${drawn.join('\n')}\n</svg>\n`
}

/** The same function has the same colour in two graphs. @param {string} name */
function colourOf(name) {
  const hash = Buffer.from(name).reduce((sum, byte) => (sum * 31 + byte) % 9973, 7)
  return `hsl(${15 + (hash % 40)} 80% ${62 + (hash % 15)}%)`
}

/** @param {string} text */
function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
