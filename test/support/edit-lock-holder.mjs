// A process that takes the edit lock of a file, says so, and holds it until it is killed. Argument: the file.
import { writeSync } from 'node:fs'
import { withEditLock } from '../../dist/lib/edit-lock.js'

await withEditLock(process.argv[2], () => {
  writeSync(1, 'locked\n')
  return new Promise((resolve) => setTimeout(resolve, 3_600_000))
})
