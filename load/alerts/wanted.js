// @ts-check
// The alerts that are made to happen, and the log line that goes with each.

/** By alert: the cell that it must fire in, and the line. */
export const WANTED = {
  SluiceBadAppRecord: { cell: 'alone', says: /apps?\.json|app file/i },
  SluiceCertificateEnds: { cell: 'alone', says: /certificate/i },
  SluiceFilesNearlyUsed: { cell: 'files', says: /file descriptors are in use/ },
  SluiceStoreLost: { cell: 'lost', says: /stream.*(lost|gone|created|anew)/i },
  SluiceClockSkew: { cell: 'cluster', says: /clock/i },
  SluiceStreamReplicasMissing: { cell: 'cluster', says: /a 202 survives .* is (offline|behind)/ },
}

/** @typedef {keyof typeof WANTED} Name */
export const NAMES = /** @type {readonly Name[]} */ (Object.keys(WANTED))

/** The first warning or error of a log that says it; null: none does. @param {Name} name @param {string} log */
export function lineOf(name, log) {
  const { says } = WANTED[name]
  return log.split('\n').find((line) => /"level":"(warn|error)"/.test(line) && says.test(line)) ?? null
}
