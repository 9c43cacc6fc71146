// A simulated Redis: one thread that runs one command after the other, each of which takes time. Its data can be lost or
// rolled back.

import { createHash } from 'node:crypto'
import type { LuaMachine } from './lua.ts'
import { runCommand } from './redis-commands.ts'
import { RedisValues } from './redis-values.ts'
import { OK, type Reply, ReplyError } from './reply.ts'
import type { World } from './world.ts'

/** Of a command, of a script, of each command in a script, and of each item of a reply that is a list. */
const COST_MS = { command: 0.004, script: 0.01, inScript: 0.004, item: 0.0035 } as const

interface Waiting {
  readonly words: readonly string[]
  readonly answer: (reply: Reply) => void
}

type Copy = ReturnType<RedisValues['copy']>

export class RedisServer {
  readonly values: RedisValues
  /** How far its clock is ahead of the world's. */
  clockOffsetMs = 0
  /** Added to the cost of each command. */
  extraCostMs = 0
  /** false: it refuses connections. */
  isUp = true
  commands = 0
  scripts = 0
  readonly #world: World
  readonly #lua: LuaMachine
  readonly #loaded = new Map<string, string>()
  readonly #waiting: Waiting[] = []
  #busyUntilMs = 0
  #isFrozen = false
  #isScheduled = false
  #snapshot: Copy | null = null

  constructor(world: World, lua: LuaMachine) {
    this.#world = world
    this.#lua = lua
    this.values = new RedisValues(() => Math.floor(this.nowMs))
  }

  /** Unix ms by its own clock. */
  get nowMs(): number {
    return this.#world.wallMs + this.clockOffsetMs
  }

  /** Receives a command. `answer` is called when it is done, in order of arrival. */
  submit(words: readonly string[], answer: (reply: Reply) => void): void {
    if (!this.isUp) return
    this.#waiting.push({ words, answer })
    this.#work()
  }

  freeze(): void {
    this.#isFrozen = true
  }

  thaw(): void {
    this.#isFrozen = false
    this.#work()
  }

  /** The process ends: waiting commands and loaded scripts are lost. */
  kill(): void {
    this.isUp = false
    this.#isFrozen = false
    this.#waiting.length = 0
    this.#loaded.clear()
  }

  start(): void {
    this.isUp = true
    this.#busyUntilMs = this.#world.nowMs
  }

  takeSnapshot(): void {
    this.#snapshot = this.values.copy()
  }

  /** Back to the last snapshot, or to an empty state if there is none. */
  rollBack(): void {
    if (this.#snapshot === null) this.values.clear()
    else this.values.restore(this.#snapshot)
  }

  /** Runs a command at once and at no cost, for tests. */
  ask(...words: string[]): Reply {
    return this.#run(words).reply
  }

  #work(): void {
    while (this.#waiting.length > 0 && !this.#isFrozen && this.isUp) {
      if (this.#busyUntilMs > this.#world.nowMs) {
        this.#workLater()
        return
      }
      const { words, answer } = this.#waiting.shift() as Waiting
      const { reply, costMs } = this.#run(words)
      this.#busyUntilMs = this.#world.nowMs + costMs + this.extraCostMs
      this.#world.at(this.#busyUntilMs, () => answer(reply))
    }
  }

  #workLater(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#world.at(this.#busyUntilMs, () => {
      this.#isScheduled = false
      this.#work()
    })
  }

  #run(words: readonly string[]): { reply: Reply; costMs: number } {
    this.commands++
    switch (words[0].toUpperCase()) {
      case 'EVAL':
        return this.#runScript(words[1], words)
      case 'EVALSHA': {
        const text = this.#loaded.get(words[1])
        if (text !== undefined) return this.#runScript(text, words)
        return { reply: new ReplyError('NOSCRIPT No matching script. Please use EVAL.'), costMs: COST_MS.command }
      }
      case 'SCRIPT':
        return { reply: this.#loadScript(words), costMs: COST_MS.command }
      case 'INFO':
        return { reply: '# Cluster\r\ncluster_enabled:0\r\n', costMs: COST_MS.command }
      case 'SELECT':
        return { reply: OK, costMs: COST_MS.command }
      default: {
        const reply = runCommand(this.values, this.nowMs, words)
        return { reply, costMs: COST_MS.command + COST_MS.item * (Array.isArray(reply) ? reply.length : 0) }
      }
    }
  }

  #loadScript(words: readonly string[]): Reply {
    if (words[1].toUpperCase() !== 'LOAD') return new ReplyError(`ERR SCRIPT ${words[1]} is not simulated`)
    const digest = digestOf(words[2])
    this.#loaded.set(digest, words[2])
    return digest
  }

  #runScript(text: string, words: readonly string[]): { reply: Reply; costMs: number } {
    this.scripts++
    this.#loaded.set(digestOf(text), text)
    const keys = Number(words[2])
    let commands = 0
    const { nowMs } = this
    const call = (inner: readonly string[]): Reply => {
      commands++
      return runCommand(this.values, nowMs, inner)
    }
    let reply: Reply
    try {
      reply = this.#lua.run(text, words.slice(3, 3 + keys), words.slice(3 + keys), call)
    } catch (error) {
      if (!(error instanceof ReplyError)) throw error
      reply = error
    }
    return { reply, costMs: COST_MS.script + COST_MS.inScript * commands }
  }
}

const digests = new Map<string, string>()

function digestOf(text: string): string {
  let digest = digests.get(text)
  if (digest === undefined) {
    digest = createHash('sha1').update(text).digest('hex')
    digests.set(text, digest)
  }
  return digest
}
