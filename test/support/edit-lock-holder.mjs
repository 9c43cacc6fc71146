// A process that takes the edit lock of a file, says `locked`, and holds it until it is killed, or until the file
// `FILE.go` is there: then it says `kept`, or why it may not replace the file. Argument: the file.
import { existsSync, writeSync } from 'node:fs'
import { withEditLock } from '../../dist/lib/edit-lock.js'

const [, , path] = process.argv
const pause = new Int32Array(new SharedArrayBuffer(4))
await withEditLock(path, (confirm) => {
  writeSync(1, 'locked\n')
  while (!existsSync(`${path}.go`)) Atomics.wait(pause, 0, 0, 10)
  confirm()
  writeSync(1, 'kept\n')
}).catch((error) => writeSync(1, `${error.message}\n`))
