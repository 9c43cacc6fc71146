// @ts-check
// The curve as a picture: latency at shares of the best rate. One SVG that needs nothing else, light or dark as its reader's page is.

const [WIDTH, HEIGHT] = [720, 320]
const [LEFT, RIGHT, TOP, BOTTOM] = [64, 96, 40, 56]
/** What the axis of the latencies may show, in ms. */
const TICKS_MS = [0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000]

/** @typedef {import('../bench/curve.js').Curve} Curve */

/** @param {Curve} curve */
export function curvePicture({ points, events }) {
  const all = points.flatMap(({ p50Ms, p99Ms }) => [p50Ms, p99Ms])
  const least = TICKS_MS.findLast((tick) => tick <= Math.min(...all)) ?? TICKS_MS[0]
  const most = TICKS_MS.find((tick) => tick >= Math.max(...all)) ?? TICKS_MS[TICKS_MS.length - 1]
  const x = (/** @type {number} */ share) => LEFT + ((WIDTH - LEFT - RIGHT) * share) / 100
  const y = (/** @type {number} */ ms) =>
    TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.log(ms / least) / Math.log(most / least))
  const ticks = TICKS_MS.filter((tick) => tick >= least && tick <= most)
  const lines = [
    `<text class="strong" x="${LEFT}" y="22">Latency from the moment due, ${events} events a request, ms</text>`,
    ...ticks.map(
      (tick) => `<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${place(y(tick))}" y2="${place(y(tick))}"/>`,
    ),
    ...ticks.map(
      (tick) =>
        `<text x="${LEFT - 8}" y="${place(y(tick) + 4)}" text-anchor="end">${tick.toLocaleString('en-US')}</text>`,
    ),
    ...points.map(({ share }) => {
      const up = share === 95 ? 28 : 14
      return `<text x="${place(x(share))}" y="${HEIGHT - BOTTOM + up + 4}" text-anchor="middle">${share}%</text>`
    }),
    `<text x="${place((LEFT + WIDTH - RIGHT) / 2)}" y="${HEIGHT - 8}" text-anchor="middle">of the best rate of one core</text>`,
    ...series(
      'p50',
      points.map(({ share, p50Ms }) => [x(share), y(p50Ms)]),
    ),
    ...series(
      'p99',
      points.map(({ share, p99Ms }) => [x(share), y(p99Ms)]),
    ),
  ]
  const style =
    'text{fill:#444;font:12px system-ui,sans-serif}.strong{font-weight:600}.grid{stroke:#ddd}polyline{fill:none;stroke-width:2}' +
    '.p50{stroke:#0a7d6c;fill:#0a7d6c}.p99{stroke:#b4470b;fill:#b4470b}polyline.p50,polyline.p99{fill:none}text.p50,text.p99{stroke:none}' +
    '@media(prefers-color-scheme:dark){text{fill:#ccc}.grid{stroke:#444}.p50{stroke:#4fd1bd;fill:#4fd1bd}.p99{stroke:#f0935a;fill:#f0935a}}'
  const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${labelOf(points)}">`
  return `${head}\n<style>${style}</style>\n${lines.join('\n')}\n</svg>\n`
}

/** @param {string} name @param {number[][]} places */
function series(name, places) {
  const [endX, endY] = places[places.length - 1] ?? [0, 0]
  const list = places.map(([left, top]) => `${place(left)},${place(top)}`).join(' ')
  return [
    `<polyline class="${name}" points="${list}"/>`,
    ...places.map(([left, top]) => `<circle class="${name}" cx="${place(left)}" cy="${place(top)}" r="3"/>`),
    `<text class="${name}" x="${place(endX + 10)}" y="${place(endY + 4)}">${name}</text>`,
  ]
}

/** @param {number} value */
const place = (value) => String(Math.round(value * 10) / 10)

/** For who cannot see it. @param {Curve['points']} points */
function labelOf(points) {
  return points
    .map(({ share, p50Ms, p99Ms }) => `at ${share}%: p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`)
    .join('; ')
}
