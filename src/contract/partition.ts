// The partition of an app's records. Every node and every version must compute the same one: the order of the queue and
// the limits depend on it.

const FNV_OFFSET = 0x811c9dc5
const FNV_PRIME = 0x01000193

/** FNV-1a (32 bits) of the app_id, which is ASCII, modulo the number of partitions. */
export function partitionOf(appId: string, partitions: number): number {
  let hash = FNV_OFFSET
  for (let index = 0; index < appId.length; index += 1) {
    hash = Math.imul(hash ^ appId.charCodeAt(index), FNV_PRIME)
  }
  return (hash >>> 0) % partitions
}
