// Which HTTP engine the services run on that tests start: Node's own server where SLUICE_HTTP_ENGINE says so, else one of the two
// generations of uWebSockets.js.

/** The binaries for this version of Node's binary interface (Node 22) and later are of 2026, those before of 2024. */
const FIRST_NEW_ABI = 127

/** Of uWebSockets.js. */
export const GENERATION: 'old' | 'new' = Number(process.versions.modules) < FIRST_NEW_ABI ? 'old' : 'new'
export const ENGINE: 'old' | 'new' | 'node' = process.env['SLUICE_HTTP_ENGINE'] === 'node' ? 'node' : GENERATION
