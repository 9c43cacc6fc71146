// What sluice keeps in JetStream, by name: the stream of events and two key-value buckets.

export const EVENTS_STREAM = 'SLUICE_EVENTS'
export const APPS_BUCKET = 'SLUICE_APPS'
export const COUNTS_BUCKET = 'SLUICE_COUNTS'

/** The stream in which JetStream keeps a bucket's entries. */
export function streamOfBucket(bucket: string): string {
  return `KV_${bucket}`
}
