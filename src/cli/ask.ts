// Asks a person for a yes or a no.

import { createInterface } from 'node:readline'
import type { Shell } from './shell.ts'

/** Asked on stderr, so that stdout holds data alone. Whatever is not a yes is a no: also Ctrl-C, and the input's end. */
export function isConfirmed(question: string, { stdin, stderr }: Pick<Shell, 'stdin' | 'stderr'>): Promise<boolean> {
  const asker = createInterface({ input: stdin, output: stderr })
  return new Promise((done) => {
    asker.once('close', () => done(false))
    asker.question(question, (answer) => {
      done(/^y(es)?$/i.test(answer.trim()))
      asker.close()
    })
  })
}
