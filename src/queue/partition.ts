// Which partition an app's records go to. Every node must agree, for ever: the queue's order and the limits rest on it.

const FNV_OFFSET = 0x811c9dc5
const FNV_PRIME = 0x01000193

/** FNV-1a, 32 bits, over the bytes of the app_id, which is ASCII; then the rest by the number of partitions. */
export function partitionOf(appId: string, partitions: number): number {
  let hash = FNV_OFFSET
  for (let index = 0; index < appId.length; index += 1) {
    hash = Math.imul(hash ^ appId.charCodeAt(index), FNV_PRIME)
  }
  return (hash >>> 0) % partitions
}
