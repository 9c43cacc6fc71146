// A process that takes the lock of a folder, says whether it could, and lives until it is killed. Arguments: folder,
// and the platform whose way it takes.
import { writeSync } from 'node:fs'
import { acquireLock } from '../../dist/lib/lock.js'

const [, , directory, platform] = process.argv
const lock = await acquireLock(directory, platform)
writeSync(1, 'held' in lock ? 'held\n' : 'locked\n')
setInterval(() => {}, 60_000)
