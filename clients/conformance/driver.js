// An SDK's driver, as a process: commands go in, a JSON object a line, and what it says comes out. Whatever it does against
// the format is said, once, as what went wrong.

import { spawn } from 'node:child_process'

/** Of the commands and lines; docs/sdk.md has them. */
export const FORMAT_VERSION = 1
export const CAPABILITIES = ['storage', 'opt_out', 'clock', 'compression']
const COMMAND_TIMEOUT_MS = 30_000
/** A driver that does not say what it is does so in no scenario. */
const HELLO_TIMEOUT_MS = 10_000
/** What has been written when the process ends is read in this time. */
const LAST_LINES_MS = 1000
const MOST_SAID = 2000
const MOST_OF_A_LINE = 1_000_000
/** Of the names that it drops, and of its lines. */
const MOST_NAMED = 100_000
const HELLO = `{"version": ${FORMAT_VERSION}, "sdk": "NAME AND VERSION", "capabilities": []}`

const isTexts = (found) => Array.isArray(found) && found.every((one) => typeof one === 'string')

/** @typedef {{ names: string[], reason: string, atMs: number }} Dropped */
/** @typedef {ReturnType<typeof startDriver>} Driver */

/**
 * @param {readonly string[]} command
 * @param {Record<string, string>} env
 */
export function startDriver([program, ...args], env) {
  const child = spawn(program, args, {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
  // The group, so that what the driver has started ends with it.
  const kill = () => {
    try {
      process.kill(-Number(child.pid), 'SIGKILL')
    } catch {}
  }
  /** @type {Dropped[]} */
  const dropped = []
  let errors = ''
  let wrong = /** @type {string | null} */ (null)
  let isClosing = false
  /** Ends the waits for what will not come. @type {Set<() => void>} */
  const waiting = new Set()
  /** @type {string[]} */
  const done = []
  let hello = /** @type {{ sdk: string, capabilities: string[] } | null} */ (null)

  const fail = (/** @type {string} */ what) => {
    wrong ??= what
    for (const look of waiting) look()
  }
  child.stdin.on('error', () => fail('it closed its stdin'))
  child.stderr.on('data', (piece) => (errors = (errors + piece).slice(-MOST_SAID)))
  child.on('error', (error) => fail(`it does not start: ${error.message}`))
  const exited = new Promise((resolve) => child.on('close', resolve))
  // What it has started may hold its streams open for ever.
  child.on('exit', () => {
    const timer = setTimeout(() => {
      child.stdout.destroy()
      child.stderr.destroy()
    }, LAST_LINES_MS)
    child.on('close', () => clearTimeout(timer))
  })
  child.on('close', (code, signal) => {
    if (!isClosing || code !== 0)
      fail(`it ended with ${signal ?? code}: ${errors.trim().slice(-300) || 'it said nothing'}`)
    for (const look of waiting) look()
  })
  let begun = ''
  let named = 0
  child.stdout.setEncoding('utf8').on('data', (piece) => {
    const lines = (begun + piece).split('\n')
    begun = lines.pop() ?? ''
    for (const line of lines) {
      const problem = take(line)
      if (problem !== null) fail(`${problem}: ${line.slice(0, 200)}`)
    }
    if (begun.length > MOST_OF_A_LINE) giveUp(`a line is longer than ${MOST_OF_A_LINE} characters`)
    else if (named > MOST_NAMED) giveUp(`it wrote more than ${MOST_NAMED} lines and names`)
    for (const look of waiting) look()
  })

  /** What it writes has no end. */
  function giveUp(what) {
    fail(what)
    begun = ''
    child.stdout.destroy()
    kill()
  }

  /** Null, or what is wrong with the line. */
  function take(line) {
    let said
    try {
      said = JSON.parse(line)
    } catch {
      return hello === null ? `its first line is no JSON, such as ${HELLO}` : 'it wrote a line that is no JSON'
    }
    named++
    if (hello === null) {
      const { version, sdk, capabilities } = Object(said)
      if (version !== FORMAT_VERSION) return `its first line does not say "version": ${FORMAT_VERSION}`
      if (typeof sdk !== 'string' || !Array.isArray(capabilities)) return 'its first line lacks "sdk" or "capabilities"'
      const unknown = capabilities.findIndex((name) => !CAPABILITIES.includes(name))
      if (unknown >= 0) return `there is no capability ${JSON.stringify(capabilities[unknown])}`
      hello = { sdk, capabilities }
    } else if (typeof said?.done === 'string') done.push(said.done)
    else if (isTexts(said?.dropped) && typeof said.reason === 'string') {
      named += said.dropped.length
      dropped.push({ names: said.dropped, reason: said.reason, atMs: Date.now() })
    } else return 'it wrote a line that is neither {"dropped", "reason"} nor {"done"}'
    return null
  }

  /** Until `isThere`, or until it cannot come any more. */
  async function wait(
    /** @type {() => boolean} */ isThere,
    /** @type {string} */ what,
    timeoutMs = COMMAND_TIMEOUT_MS,
  ) {
    let look = () => {}
    const timer = setTimeout(() => fail(`it did not print ${what} within ${timeoutMs / 1000} s`), timeoutMs)
    await new Promise((resolve) => {
      look = () => {
        if (isThere() || wrong !== null) resolve(null)
      }
      waiting.add(look)
      look()
    })
    clearTimeout(timer)
    waiting.delete(look)
  }

  return {
    dropped,
    /** What it did against the format, or null. */
    wrong: () => wrong,
    hello: async () => {
      await wait(() => hello !== null, `its first line, such as ${HELLO},`, HELLO_TIMEOUT_MS)
      return hello
    },
    /** Sends commands and waits until all are done. */
    async tell(/** @type {readonly ({ command: string } & Record<string, unknown>)[]} */ ...commands) {
      if (wrong !== null) return
      const before = done.length
      if (commands.some(({ command }) => command === 'close')) isClosing = true
      child.stdin.write(commands.map((command) => `${JSON.stringify(command)}\n`).join(''))
      const names = commands.map(({ command }) => command)
      await wait(() => done.length >= before + names.length, `{"done": "${names.at(-1)}"}`)
      const other = names.findIndex((name, place) => done[before + place] !== name)
      if (wrong === null && other >= 0)
        fail(`it said {"done": "${done[before + other]}"} to the command ${names[other]}`)
    },
    kill,
    async end() {
      child.stdin.end()
      const timer = setTimeout(
        () => {
          if (isClosing) fail('it did not end after {"done": "close"}')
          kill()
        },
        isClosing ? COMMAND_TIMEOUT_MS / 3 : 0,
      )
      await exited
      clearTimeout(timer)
      kill()
    },
  }
}
