// Runs the real scripts: Lua 5.1 like in Redis, compiled to WebAssembly, with Redis's functions for scripts. It uses Lua's
// C interface, because the package's own conversions cost more than the scripts.

import { Lua } from 'wasmoon-lua5.1'
import { formatNumber, type Reply, ReplyError, Status } from './reply.ts'

/** The functions of Lua's C interface that are used here. */
interface LuaModule {
  readonly HEAPU8: Uint8Array
  readonly HEAPU32: Uint32Array
  readonly addFunction: (task: (state: number) => number, signature: string) => number
  readonly _malloc: (bytes: number) => number
  readonly _free: (at: number) => void
  readonly _lua_createtable: (state: number, array: number, hash: number) => void
  readonly _lua_gettop: (state: number) => number
  readonly _lua_next: (state: number, index: number) => number
  readonly _lua_pcall: (state: number, given: number, results: number, handler: number) => number
  readonly _lua_pushboolean: (state: number, value: number) => void
  readonly _lua_pushcclosure: (state: number, task: number, upvalues: number) => void
  readonly _lua_pushlightuserdata: (state: number, value: number) => void
  readonly _lua_pushlstring: (state: number, at: number, bytes: number) => void
  readonly _lua_pushnil: (state: number) => void
  readonly _lua_pushnumber: (state: number, value: number) => void
  readonly _lua_pushvalue: (state: number, index: number) => void
  readonly _lua_rawget: (state: number, index: number) => void
  readonly _lua_rawgeti: (state: number, index: number, at: number) => void
  readonly _lua_rawset: (state: number, index: number) => void
  readonly _lua_rawseti: (state: number, index: number, at: number) => void
  readonly _lua_settop: (state: number, index: number) => void
  readonly _lua_toboolean: (state: number, index: number) => number
  readonly _lua_tolstring: (state: number, index: number, lengthAt: number) => number
  readonly _lua_tonumber: (state: number, index: number) => number
  readonly _lua_type: (state: number, index: number) => number
  readonly _luaL_loadbuffer: (state: number, at: number, bytes: number, name: number) => number
  readonly _luaL_ref: (state: number, table: number) => number
}

const REGISTRY = -10_000
const GLOBALS = -10_002
const TYPE = { nil: 0, boolean: 1, pointer: 2, number: 3, string: 4, table: 5 } as const
const SCRATCH_BYTES = 64 * 1024
const MAX_DEPTH = 100

/** Lua code around each script. It raises errors itself, so that none has to pass through JavaScript. */
const PRELUDE = `
local command, decode, encode, error, type = __command, __decode, __encode, error, type
__command, __decode, __encode = nil, nil, nil
redis = {
  call = function(...)
    local isDone, reply = command(...)
    if isDone then return reply end
    error({ err = reply }, 0)
  end,
  pcall = function(...)
    local isDone, reply = command(...)
    if isDone then return reply end
    return { err = reply }
  end,
  status_reply = function(text) return { ok = text } end,
  error_reply = function(text) return { err = text } end,
  log = function() end,
  replicate_commands = function() return true end,
  set_repl = function() end,
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
}
cjson = {
  null = __null,
  decode = function(text)
    local isDone, value = decode(text)
    if isDone then return value end
    error(value, 0)
  end,
  encode = function(value)
    local isDone, text = encode(value)
    if isDone then return text end
    error(text, 0)
  end,
}
__null = nil
KEYS, ARGV = {}, {}
os = { clock = os.clock }
io, dofile, loadfile, require, module, package, print = nil, nil, nil, nil, nil, nil, nil
setmetatable(_G, {
  __newindex = function(_, name) error('Attempt to modify a readonly table: ' .. tostring(name), 2) end,
  __index = function(_, name)
    error('Script attempted to access nonexistent global variable \\'' .. tostring(name) .. '\\'', 2)
  end,
})
`

/**
 * The raw exports of the WebAssembly module. The package wraps each function with checks that cost ten times as much as
 * the function.
 */
async function exportsOf<Made>(make: () => Promise<Made>): Promise<{ made: Made; exports: Record<string, unknown> }> {
  const { WebAssembly: assembly } = globalThis as unknown as { WebAssembly: { instantiate: Instantiate } }
  const { instantiate } = assembly
  let exports: Record<string, unknown> = {}
  assembly.instantiate = async (...args) => {
    const result = await instantiate.apply(assembly, args)
    exports = result.instance.exports
    return result
  }
  try {
    return { made: await make(), exports }
  } finally {
    assembly.instantiate = instantiate
  }
}

type Instantiate = (...args: unknown[]) => Promise<{ instance: { exports: Record<string, unknown> } }>

export class LuaMachine {
  readonly #module: LuaModule
  readonly #state: number
  readonly #scratch: number
  readonly #lengthAt: number
  readonly #scripts = new Map<string, number>()
  #memory: Buffer = Buffer.alloc(0)
  #command: (args: readonly string[]) => Reply = () => null

  static async open(): Promise<LuaMachine> {
    const exported = await exportsOf(async () => Lua.create())
    return new LuaMachine(exported.made, exported.exports)
  }

  private constructor(lua: Lua, exports: Record<string, unknown>) {
    const module = lua.luaApi.module as unknown as LuaModule
    const raw = Object.entries(exports).map(([name, task]) => [`_${name}`, task] as const)
    this.#module = Object.assign(Object.create(module) as LuaModule, Object.fromEntries(raw))
    this.#state = lua.global.address
    this.#scratch = this.#module._malloc(SCRATCH_BYTES)
    this.#lengthAt = this.#module._malloc(4)
    this.#register('__command', () => this.#called())
    this.#register('__decode', () => this.#attempt(() => this.#pushJson(JSON.parse(this.#text(1)))))
    this.#register('__encode', () => this.#attempt(() => this.#pushText(this.#jsonOf(1, 0))))
    this.#setGlobal('__null', () => this.#module._lua_pushlightuserdata(this.#state, 0))
    this.#load(PRELUDE)
    this.#run()
    this.#module._lua_settop(this.#state, 0)
  }

  /** Returns the script's reply. Throws the ReplyError that Redis would answer if the script fails. */
  run(
    text: string,
    keys: readonly string[],
    args: readonly string[],
    command: (args: readonly string[]) => Reply,
  ): Reply {
    const { _lua_rawgeti, _luaL_ref, _lua_settop } = this.#module
    const state = this.#state
    const outer = this.#command
    this.#command = command
    try {
      let script = this.#scripts.get(text)
      if (script === undefined) {
        this.#load(text)
        script = _luaL_ref(state, REGISTRY)
        this.#scripts.set(text, script)
      }
      this.#setGlobal('KEYS', () => this.#pushList(keys))
      this.#setGlobal('ARGV', () => this.#pushList(args))
      _lua_rawgeti(state, REGISTRY, script)
      this.#run()
      return this.#replyAt(1, 0)
    } finally {
      this.#command = outer
      _lua_settop(state, 0)
    }
  }

  #register(name: string, task: () => number): void {
    const pointer = this.#module.addFunction(() => task(), 'ii')
    this.#setGlobal(name, () => this.#module._lua_pushcclosure(this.#state, pointer, 0))
  }

  #setGlobal(name: string, push: () => void): void {
    this.#module._lua_pushvalue(this.#state, GLOBALS)
    this.#pushText(name)
    push()
    this.#module._lua_rawset(this.#state, -3)
    this.#module._lua_settop(this.#state, -2)
  }

  #load(text: string): void {
    const { _luaL_loadbuffer, _malloc, _free } = this.#module
    const bytes = Buffer.from(`${text}\0@user_script\0`)
    const at = _malloc(bytes.length)
    this.#module.HEAPU8.set(bytes, at)
    const length = Buffer.byteLength(text)
    const status = _luaL_loadbuffer(this.#state, at, length, at + length + 1)
    _free(at)
    if (status !== 0) throw new ReplyError(`ERR Error compiling script: ${this.#popText()}`)
  }

  /** Calls the function on top of the stack, and leaves one result. */
  #run(): void {
    if (this.#module._lua_pcall(this.#state, 0, 1, 0) === 0) return
    const failure = this.#replyAt(-1, 0)
    throw failure instanceof ReplyError
      ? failure
      : new ReplyError(`ERR ${typeof failure === 'string' ? failure : 'the script failed'}`)
  }

  /** `redis.call`: pushes whether it succeeded, and the reply or the error. */
  #called(): number {
    const { _lua_type, _lua_tonumber } = this.#module
    const state = this.#state
    return this.#attempt((given) => {
      const args: string[] = []
      for (let index = 1; index <= given; index++) {
        const type = _lua_type(state, index)
        if (type === TYPE.number) args.push(formatNumber(_lua_tonumber(state, index), 17))
        else if (type === TYPE.string) args.push(this.#text(index))
        else throw new ReplyError('ERR Lua redis lib command arguments must be strings or integers')
      }
      if (args.length === 0) throw new ReplyError('ERR Please specify at least one argument for this redis.call() call')
      const reply = this.#command(args)
      if (reply instanceof ReplyError) throw reply
      this.#pushReply(reply)
    })
  }

  #attempt(task: (given: number) => void): number {
    const { _lua_pushboolean, _lua_gettop, _lua_settop } = this.#module
    const top = _lua_gettop(this.#state)
    _lua_pushboolean(this.#state, 1)
    try {
      task(top)
    } catch (error) {
      _lua_settop(this.#state, top)
      _lua_pushboolean(this.#state, 0)
      this.#pushText(error instanceof Error ? error.message : String(error))
    }
    return 2
  }

  #pushText(text: string): void {
    const { _lua_pushlstring, _malloc, _free } = this.#module
    const at = text.length > SCRATCH_BYTES ? _malloc(text.length) : this.#scratch
    this.#bytes().write(text, at, 'latin1')
    _lua_pushlstring(this.#state, at, text.length)
    if (at !== this.#scratch) _free(at)
  }

  /** A string holds one byte per character, on both sides. */
  #text(index: number): string {
    const at = this.#module._lua_tolstring(this.#state, index, this.#lengthAt)
    const length = this.#module.HEAPU32[this.#lengthAt >> 2]
    return this.#bytes().toString('latin1', at, at + length)
  }

  /** The machine's memory, which moves when it grows. */
  #bytes(): Buffer {
    const { buffer } = this.#module.HEAPU8
    if (this.#memory.buffer !== buffer) this.#memory = Buffer.from(buffer)
    return this.#memory
  }

  #popText(): string {
    const text = this.#text(-1)
    this.#module._lua_settop(this.#state, -2)
    return text
  }

  #pushList(items: readonly string[]): void {
    this.#module._lua_createtable(this.#state, items.length, 0)
    for (const [at, item] of items.entries()) {
      this.#pushText(item)
      this.#module._lua_rawseti(this.#state, -2, at + 1)
    }
  }

  #pushReply(reply: Reply): void {
    const state = this.#state
    const { _lua_pushnumber, _lua_pushboolean, _lua_createtable, _lua_rawseti } = this.#module
    if (typeof reply === 'number') _lua_pushnumber(state, reply)
    else if (typeof reply === 'string') this.#pushText(reply)
    else if (reply === null) _lua_pushboolean(state, 0)
    else if (reply instanceof Status) this.#pushNamed('ok', reply.text)
    else if (reply instanceof ReplyError) this.#pushNamed('err', reply.message)
    else {
      _lua_createtable(state, reply.length, 0)
      for (const [at, item] of reply.entries()) {
        this.#pushReply(item)
        _lua_rawseti(state, -2, at + 1)
      }
    }
  }

  #pushNamed(name: string, text: string): void {
    this.#module._lua_createtable(this.#state, 0, 1)
    this.#pushText(name)
    this.#pushText(text)
    this.#module._lua_rawset(this.#state, -3)
  }

  /** Redis's conversion of a script's value: numbers become integers, and a table ends at its first nil. */
  #replyAt(index: number, depth: number): Reply {
    const { _lua_type, _lua_tonumber, _lua_toboolean, _lua_rawgeti, _lua_settop, _lua_gettop } = this.#module
    const state = this.#state
    const at = index < 0 ? _lua_gettop(state) + 1 + index : index
    if (depth > MAX_DEPTH) throw new ReplyError('ERR reached lua stack limit')
    switch (_lua_type(state, at)) {
      case TYPE.number:
        return Math.trunc(_lua_tonumber(state, at))
      case TYPE.string:
        return this.#text(at)
      case TYPE.boolean:
        return _lua_toboolean(state, at) === 1 ? 1 : null
      case TYPE.table: {
        const error = this.#memberAt(at, 'err')
        if (error !== null) return new ReplyError(error)
        const ok = this.#memberAt(at, 'ok')
        if (ok !== null) return new Status(ok)
        const items: Reply[] = []
        for (let place = 1; ; place++) {
          _lua_rawgeti(state, at, place)
          const isEnd = _lua_type(state, -1) === TYPE.nil
          if (!isEnd) items.push(this.#replyAt(-1, depth + 1))
          _lua_settop(state, -2)
          if (isEnd) return items
        }
      }
      default:
        return null
    }
  }

  #memberAt(index: number, name: string): string | null {
    this.#pushText(name)
    this.#module._lua_rawget(this.#state, index)
    const text = this.#module._lua_type(this.#state, -1) === TYPE.string ? this.#text(-1) : null
    this.#module._lua_settop(this.#state, -2)
    return text
  }

  #pushJson(value: unknown): void {
    const state = this.#state
    const { _lua_pushnumber, _lua_pushboolean, _lua_pushlightuserdata, _lua_createtable, _lua_rawset, _lua_rawseti } =
      this.#module
    if (typeof value === 'number') _lua_pushnumber(state, value)
    else if (typeof value === 'string') this.#pushText(value)
    else if (typeof value === 'boolean') _lua_pushboolean(state, value ? 1 : 0)
    else if (value === null) _lua_pushlightuserdata(state, 0)
    else if (Array.isArray(value)) {
      _lua_createtable(state, value.length, 0)
      for (const [at, item] of value.entries()) {
        this.#pushJson(item)
        _lua_rawseti(state, -2, at + 1)
      }
    } else {
      const members = Object.entries(value as object)
      _lua_createtable(state, 0, members.length)
      for (const [name, member] of members) {
        this.#pushText(name)
        this.#pushJson(member)
        _lua_rawset(state, -3)
      }
    }
  }

  /** Like cjson: 14 digits, and a table whose keys are 1 to n is an array. */
  #jsonOf(index: number, depth: number): string {
    const { _lua_type, _lua_tonumber, _lua_toboolean, _lua_rawgeti, _lua_settop, _lua_gettop } = this.#module
    const state = this.#state
    if (depth > MAX_DEPTH) throw new Error('Cannot serialise, excessive depth')
    const at = index < 0 ? _lua_gettop(state) + 1 + index : index
    switch (_lua_type(state, at)) {
      case TYPE.number: {
        const value = _lua_tonumber(state, at)
        if (!Number.isFinite(value)) throw new Error('Cannot serialise number: must not be NaN or Inf')
        return formatNumber(value, 14)
      }
      case TYPE.string:
        return JSON.stringify(this.#text(at))
      case TYPE.boolean:
        return _lua_toboolean(state, at) === 1 ? 'true' : 'false'
      case TYPE.nil:
      case TYPE.pointer:
        return 'null'
      case TYPE.table:
        break
      default:
        throw new Error('Cannot serialise: type not supported')
    }
    const members: [key: string | number, json: string][] = []
    this.#module._lua_pushnil(state)
    while (this.#module._lua_next(state, at) !== 0) {
      const isNumber = _lua_type(state, -2) === TYPE.number
      const key = isNumber ? _lua_tonumber(state, -2) : this.#text(-2)
      members.push([key, this.#jsonOf(-1, depth + 1)])
      _lua_settop(state, -2)
    }
    const places = members.map(([key]) => key)
    const isList =
      places.length > 0 && places.every((key) => typeof key === 'number' && key >= 1 && Number.isInteger(key))
    if (!isList) return `{${members.map(([key, json]) => `${JSON.stringify(String(key))}:${json}`).join(',')}}`
    const last = Math.max(...(places as number[]))
    if (last > 10 && last > 2 * places.length) throw new Error('Cannot serialise table: excessively sparse array')
    const items: string[] = []
    for (let place = 1; place <= last; place++) {
      _lua_rawgeti(state, at, place)
      items.push(this.#jsonOf(-1, depth + 1))
      _lua_settop(state, -2)
    }
    return `[${items.join(',')}]`
  }
}
