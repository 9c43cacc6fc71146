// Secrets, alerts, and what a test of the webhooks starts: it ends with the test.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { onTestFinished } from 'vitest'

const EXAMPLES = resolve(import.meta.dirname, '../../examples')
export const [OLD, NEW, OTHER] = ['a', 'b', 'c'].map(
  (letter) => `whsec_${Buffer.from(letter.repeat(32)).toString('base64')}`,
)
export const NOW_MS = Date.parse('2026-11-20T12:00:00.000Z')

export async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => server.close().closeAllConnections())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** `by`: the command that starts Node, with what comes before. */
export function startExample(
  name: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  by: readonly string[] = [],
) {
  const [command, ...rest] = [...by, process.execPath, join(EXAMPLES, name), ...args]
  const child: ChildProcess = spawn(command, rest, { env, stdio: 'pipe' })
  const texts = { stdout: '', stderr: '' }
  child.stdout?.on('data', (text: Buffer) => (texts.stdout += text.toString()))
  child.stderr?.on('data', (text: Buffer) => (texts.stderr += text.toString()))
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null && child.kill(signal)) await once(child, 'exit')
    return child.exitCode
  }
  onTestFinished(async () => void (await end('SIGKILL')))
  return { end, texts }
}

export function alert(number: number, changes: object = {}) {
  const id = `0199f3a0-7c1e-5d2a-9f5b-${String(number).padStart(12, '0')}`
  const at = new Date(NOW_MS + number).toISOString()
  return { id, at, app_id: 'shop', kind: 'step', state: 'raised', ...changes }
}
