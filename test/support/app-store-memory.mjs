// Watches the bucket at the NATS of its first argument until it has every app, and prints how many there are and by how
// many bytes this process has grown for them.

import { openBucketApps } from '../../dist/apps/bucket/bucket-apps.js'
import { systemTimers } from '../../dist/lib/timers.js'

const [url] = process.argv.slice(2)
globalThis.gc()
const before = process.memoryUsage()
const store = openBucketApps({ nats: url, replicas: 1, timers: systemTimers })
while (!store.isLoaded) await new Promise((resolve) => setTimeout(resolve, 20))
globalThis.gc()
const after = process.memoryUsage()
console.log(JSON.stringify({ apps: [...store.all()].length, grownBytes: after.rss - before.rss }))
await store.stop()
