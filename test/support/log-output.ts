// A service whose output is of all kinds, and is read when the test says so.

import { type ChildProcess, execFileSync, type StdioOptions, spawn } from 'node:child_process'
import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { expectAccepted, get, post, single } from './client.ts'
import { freePort, MAIN, metricsOf } from './processes.js'
import { appRecord, eventually, makeFolder, writeApps } from './service.ts'

const DROPPED = 'sluice_log_lines_dropped_total'
/** What waits for a reader at most, and a pipe besides. */
export const MORE_THAN_WAITS_BYTES = 1_400_000
const LINE_REASONS = 100
const LINE_BYTES = 47_000
const STALLED_READER = constants.O_RDONLY | constants.O_NONBLOCK

export interface Node {
  readonly port: number
  readonly adminPort: number
  readonly dataDir: string
  readonly child: ChildProcess
  readonly ended: Promise<number | NodeJS.Signals | null>
}

interface Started {
  readonly env?: Readonly<Record<string, string>>
  /** `"$@"` is the program. */
  readonly shell?: string
}

/** Its log is not read here, so its port answers when it has started. */
export async function startInto(stdio: StdioOptions, { env = {}, shell }: Started = {}): Promise<Node> {
  const dataDir = await makeFolder()
  await writeApps(join(dataDir, 'apps.json'), [appRecord('shop')])
  const [port, adminPort] = [await freePort(), await freePort()]
  const program = [process.execPath, MAIN, 'serve']
  const [command, ...args] = shell === undefined ? program : ['bash', '-c', shell, 'bash', ...program]
  const settings = { HOST: '127.0.0.1', PORT: `${port}`, SLUICE_ADMIN_PORT: `${adminPort}`, SLUICE_DATA_DIR: dataDir }
  const child = spawn(command, args, {
    cwd: dataDir,
    env: { PATH: process.env['PATH'] ?? '', SLUICE_APPS_FILE: join(dataDir, 'apps.json'), ...settings, ...env },
    stdio,
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = new Promise<number | NodeJS.Signals | null>((done) => {
    child.once('exit', (code, signal) => done(code ?? signal))
  })
  await eventually('it serves', async () => {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}`)
    return await get(adminPort, '/readyz').then(
      ({ status }) => status === 200,
      () => false,
    )
  })
  return { port, adminPort, dataDir, child, ended }
}

export async function expectServing(node: Node): Promise<void> {
  for (let sent = 0; sent < 3; sent++) expectAccepted(await post(node, single('ak_shop')), 1)
  expect((await get(node.adminPort, '/livez')).status).toBe(200)
}

export async function dropped(node: Node): Promise<number> {
  return (await metricsOf(node)).get(DROPPED) ?? -1
}

export const untilDropped = (node: Node): Promise<void> =>
  eventually('lines were dropped and counted', async () => (await dropped(node)) > 0)

export async function expectEnd(node: Node): Promise<void> {
  node.child.kill('SIGTERM')
  expect(await node.ended).toBe(0)
}

/** Has the service log so many bytes, in long lines that all differ. */
export async function logMuch(node: Node, bytes: number): Promise<void> {
  const file = join(node.dataDir, 'apps.json')
  const good = readFileSync(file, 'utf8')
  for (let line = 0; line * LINE_BYTES < bytes; line++) {
    const before = await failures(node)
    const unknown = Array.from({ length: LINE_REASONS }, (_, at) => [`${line}-${at}-${'x'.repeat(450)}`, null])
    await writeFile(file, JSON.stringify({ apps: [], ...Object.fromEntries(unknown) }))
    node.child.kill('SIGHUP')
    await eventually('the file was read', async () => (await failures(node)) > before)
  }
  await writeFile(file, good)
}

const failures = async (node: Node): Promise<number> =>
  (await metricsOf(node)).get('sluice_apps_reload_failures_total') ?? 0

/** A pipe with a name, whose reader does nothing until it is asked to. */
export async function openPipe() {
  const path = join(await makeFolder(), 'pipe')
  execFileSync('mkfifo', [path])
  const reader = openSync(path, STALLED_READER)
  const writer = openSync(path, 'w')
  let isOpen = true
  const close = (): void => {
    if (isOpen) closeSync(reader)
    isOpen = false
  }
  onTestFinished(close)
  return {
    writer,
    close,
    /** What is in it now. */
    read: (): string => {
      const piece = Buffer.alloc(65_536)
      let text = ''
      try {
        for (let bytes = 1; bytes > 0; ) {
          bytes = readSync(reader, piece)
          text += piece.toString('utf8', 0, bytes)
        }
      } catch {
        // It is empty, and has a writer.
      }
      return text
    },
  }
}

export function entriesIn(text: string): Record<string, unknown>[] {
  const lines = text.split('\n').filter((line) => line !== '')
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
}

/** `script` shows it; the shell in it outlives the terminal, to tell how the service ended. */
export async function startInTerminal() {
  const folder = await makeFolder()
  const said = (name: string): string => {
    try {
      return readFileSync(join(folder, name), 'utf8').trim()
    } catch {
      return ''
    }
  }
  const inside = `trap '' HUP; "$NODE" "$MAIN" serve <&0 & echo $! > ${folder}/pid; wait $!; echo $? > ${folder}/code`
  const node = await startInto(['ignore', 'pipe', 'pipe'], {
    env: { FOLDER: folder, NODE: process.execPath, MAIN, SHELL: '/bin/sh' },
    shell: `exec script -q -c ${JSON.stringify(inside).replaceAll('$', '\\$')} /dev/null`,
  })
  node.child.stdout?.resume()
  const pid = Number(said('pid'))
  onTestFinished(() => {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended.
    }
  })
  const expectCode = async (code: number): Promise<void> => {
    process.kill(pid, 'SIGTERM')
    await eventually('the service has ended', () => said('code') !== '')
    expect(said('code')).toBe(`${code}`)
  }
  return { node, pid, expectCode }
}
