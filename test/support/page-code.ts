// The code that a page shows, to be run as a reader would.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { promisify } from 'node:util'

const ROOT = resolve(import.meta.dirname, '../..')
const RUN_TIMEOUT_MS = 20_000

/** The blocks of one language, in order. */
export function codeBlocks(page: string, language: string): string[] {
  const text = readFileSync(resolve(ROOT, page), 'utf8')
  return Array.from(text.matchAll(new RegExp(`^( *)\`\`\`${language}\\n([^]*?)^ *\`\`\`$`, 'gm')), ([, indent, code]) =>
    code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  )
}

/** The one block that holds `text`. */
export function codeWith(page: string, language: string, text: string): string {
  const [block, ...others] = codeBlocks(page, language).filter((code) => code.includes(text))
  if (block === undefined || others.length > 0) throw new Error(`${page} has not one block of ${language} with ${text}`)
  return block
}

/** Runs a file to its end; its output. */
export async function runFile(file: string, env: Readonly<Record<string, string>>): Promise<string> {
  const options = { env: { PATH: process.env['PATH'] ?? '', ...env }, timeout: RUN_TIMEOUT_MS }
  const { stdout } = await promisify(execFile)(process.execPath, [file], options)
  return stdout
}

export interface Running {
  output(): string
  /** Ends it with all that it started. */
  stop(): Promise<void>
}

/** Runs a line of a shell in the checkout until it is stopped. */
export function startLine(line: string, env: Readonly<Record<string, string>>): Running {
  const child: ChildProcess = spawn('sh', ['-c', line], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '/', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let output = ''
  child.stdout?.on('data', (text: Buffer) => (output += text.toString()))
  child.stderr?.on('data', (text: Buffer) => (output += text.toString()))
  const gone = new Promise((done) => child.once('close', done))
  return {
    output: () => output,
    stop: async () => {
      const isRunning = child.exitCode === null && child.signalCode === null
      if (child.pid !== undefined && isRunning) process.kill(-child.pid, 'SIGTERM')
      await gone
    },
  }
}
