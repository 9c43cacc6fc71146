import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { isConfirmed } from '../../../src/cli/shell.ts'

async function answered(input: string): Promise<{ confirmed: boolean; shown: string }> {
  const stdin = new PassThrough()
  const stderr = new PassThrough()
  const answer = isConfirmed('Remove it? ', { stdin, stderr })
  stdin.end(input)
  const confirmed = await answer
  return { confirmed, shown: String(stderr.read()) }
}

test('yes and y are a yes, in any case', async () => {
  for (const input of ['yes\n', 'y\n', 'YES\n', ' Yes \r\n']) {
    expect(await answered(input), input).toEqual({ confirmed: true, shown: 'Remove it? ' })
  }
})

test('everything else is a no: another word, an empty line, the end of the input', async () => {
  for (const input of ['no\n', '\n', 'yesterday\n', 'remove\n', '']) {
    expect((await answered(input)).confirmed, input).toBe(false)
  }
})
