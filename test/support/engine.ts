// Which of the two generations of the HTTP engine the tests and the services that they start run on.

/** The binaries for this version of Node's binary interface (Node 22) and later are of 2026, those before of 2024. */
const FIRST_NEW_ABI = 127

export const ENGINE: 'old' | 'new' = Number(process.versions.modules) < FIRST_NEW_ABI ? 'old' : 'new'
