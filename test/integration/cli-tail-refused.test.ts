// `sluice tail --refused` against a double of the admin API: what it asks for, what it prints, and how it takes breaks.

import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../support/programs.ts'
import {
  appRecord,
  type CommandResult,
  eventually,
  makeFolder,
  runCommand,
  type Started,
  startCommand,
  writeApps,
} from '../support/service.ts'

type Handler = (request: IncomingMessage, response: ServerResponse) => void

let folder: string
let api: Server
let asked: string[]
let answer: Handler
beforeEach(async () => {
  folder = await makeFolder()
  asked = []
  answer = (_, response) => response.writeHead(404).end()
  api = await listen(0)
})
afterEach(() => close(api))

async function listen(port: number): Promise<Server> {
  const server = createServer((request, response) => {
    asked.push(`${request.url} ${request.headers.authorization ?? 'no token'}`)
    answer(request, response)
  })
  await once(server.listen(port, '127.0.0.1'), 'listening')
  return server
}

function close(server: Server): void {
  server.close()
  server.closeAllConnections()
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port
const env = (changes: Record<string, string> = {}): Record<string, string> => ({
  SLUICE_DATA_DIR: folder,
  SLUICE_ADMIN_PORT: String(portOf(api)),
  ...changes,
})

function refused(args: readonly string[], changes: Record<string, string> = {}): Promise<CommandResult> {
  return runCommand(['tail', '--refused', ...args], env(changes), folder)
}

function following(...args: string[]): Started {
  const command = startCommand(['tail', '--refused', ...args], env(), folder)
  onTestFinished(async () => {
    command.kill()
    await command.exited
  })
  return command
}

const refusal = (number: number) => ({
  node: 'a',
  message: 'events[0].name: required',
  time: `2026-11-20T12:00:0${number}.000Z`,
  request_id: `r${number}`,
  app_id: 'shop',
  code: 'validation_failed',
  reason: null,
  origin: null,
  path: 'events[0].name',
  shape: 'absent',
  sdk_version: null,
  later_member: 1,
})
const lineOf = (number: number): string =>
  `{"time":"2026-11-20T12:00:0${number}.000Z","app_id":"shop","code":"validation_failed","reason":null,"origin":null,` +
  `"path":"events[0].name","shape":"absent","sdk_version":null,"request_id":"r${number}","message":"events[0].name: required","node":"a"}\n`

function streamed(response: ServerResponse): ServerResponse {
  response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' }).write('retry: 2000\n\n')
  return response
}

const eventOf = (number: number): string => `event: refusal\ndata: ${JSON.stringify(refusal(number))}\n\n`

test('--no-follow prints those that the service knows, the oldest first, one object a line', async () => {
  answer = (_, response) => response.end(JSON.stringify({ refusals: [refusal(2), refusal(1)], groups: [] }))
  const { code, stdout, output } = await refused(['--no-follow', '--app', 'shop'], {
    SLUICE_CONSOLE_TOKEN: 'a-long-secret-token',
  })
  expect(code, output).toBe(0)
  expect(stdout).toBe(lineOf(1) + lineOf(2))
  expect(asked).toEqual(['/api/refusals?app=shop&limit=1000 Bearer a-long-secret-token'])
})

test('prints to a pipe what a client sent, byte for byte', async () => {
  const sdk_version = '\u009b31m\u007f'
  answer = (_, response) => response.end(JSON.stringify({ refusals: [{ ...refusal(1), sdk_version }], groups: [] }))
  const { stdout } = await refused(['--no-follow'])
  expect(stdout).toBe(lineOf(1).replace('"sdk_version":null', '"sdk_version":"\u009b31m\u007f"'))
})

test('follows a stream that is cut anywhere, and Ctrl-C ends it with 0', async () => {
  let stream: ServerResponse | null = null
  answer = (_, response) => {
    stream = streamed(response)
  }
  const command = following('--app', 'shop', '--from-start')
  await eventually('it asks', () => stream !== null)
  expect(asked).toEqual(['/api/refusals/stream?app=shop&from_start=1 no token'])
  const text = `: ping\n\nevent: other\ndata: {}\n\n${eventOf(1)}${eventOf(2)}`
  for (const character of text) stream!.write(character)
  await eventually('both are printed', () => command.stdout() === lineOf(1) + lineOf(2))
  process.kill(command.pid, 'SIGINT')
  expect(await command.exited).toMatchObject({ code: 0, signal: null })
})

test('an SDK version with line separators of Unicode is one line', async () => {
  const sdk_version = 'a\u2028event: refusal\u2029data: {}\u0085é'
  answer = (_, response) =>
    void streamed(response).write(
      `event: refusal\ndata: ${JSON.stringify({ ...refusal(1), sdk_version })}\n\n${eventOf(2)}`,
    )
  const command = following()
  await eventually('both are printed', () => command.stdout().endsWith(lineOf(2)))
  expect(command.stdout()).toBe(
    lineOf(1).replace('"sdk_version":null', `"sdk_version":${JSON.stringify(sdk_version)}`) + lineOf(2),
  )
})

test('goes on after the service was away, says so, and does not begin again from the start', async () => {
  answer = (_, response) => void streamed(response).write(eventOf(1))
  const command = following('--from-start')
  await eventually('the first is printed', () => command.stdout() === lineOf(1))
  const port = portOf(api)
  close(api)
  await eventually('it says so', () => command.output().includes('cannot be reached for now'))
  answer = (_, response) => void streamed(response).write(eventOf(2))
  api = await listen(port)
  await eventually('the next is printed', () => command.stdout() === lineOf(1) + lineOf(2))
  expect(command.output()).toContain('reconnected; ')
  expect(asked.at(-1)).toBe('/api/refusals/stream? no token')
})

test('asks by a name that every service answers to', async () => {
  const hosts: unknown[] = []
  answer = (request, response) => {
    hosts.push(request.headers.host)
    response.end(JSON.stringify({ refusals: [], groups: [] }))
  }
  expect((await refused(['--no-follow'])).code).toBe(0)
  expect(hosts).toEqual(['localhost'])
})

test('says how many the service had to leave out', async () => {
  answer = (_, response) => void streamed(response).write(`${eventOf(1)}event: skipped\ndata: {"count":1234}\n\n`)
  const command = following()
  await eventually('it says so', () => command.output().includes('1,234 refusals came too fast to be shown'))
  expect(command.stdout()).toBe(lineOf(1))
})

test.each([
  [401, '--no-follow', 'wants its token: set SLUICE_CONSOLE_TOKEN'],
  [403, '--from-start', 'has its console off'],
  [404, '--no-follow', 'an older sluice, or another program'],
  [503, '--from-start', 'answered 503'],
])('an answer of %i is one plain sentence and exit 1 (%s)', async (status, flag, sentence) => {
  answer = (_, response) => response.writeHead(status).end('{"error":"x","message":"y"}')
  const { code, stdout, output } = await refused([flag])
  expect(code).toBe(1)
  expect(stdout).toBe('')
  expect(output).toContain(sentence)
  expect(output.trimEnd().split('\n')).toHaveLength(1)
})

test('a service that does not run, or an unknown port, is one plain sentence and exit 1', async () => {
  const port = String(await freePort())
  const away = await refused([], {
    SLUICE_ADMIN_PORT: port,
    SLUICE_ADMIN_HOST: '0.0.0.0',
    SLUICE_CONSOLE_TOKEN: 'a-long-secret-token',
  })
  expect(away.output).toBe(
    `sluice tail: no service answers at 127.0.0.1:${port} (ECONNREFUSED): is it running, with this SLUICE_DATA_DIR, or these SLUICE_ADMIN_HOST and SLUICE_ADMIN_PORT?\n`,
  )
  expect(away.code).toBe(1)
  expect((await refused([], { SLUICE_ADMIN_PORT: '0' })).output).toContain(`no service works on ${folder}, as far as`)
})

test('what is no list, no JSON or no stream is an error, and not kept in memory', async () => {
  for (const body of ['{}', 'null', 'hello']) {
    answer = (_, response) => response.end(body)
    expect(await refused(['--no-follow'])).toMatchObject({ code: 1, stdout: '' })
  }
  answer = (_, response) => void streamed(response).write('x'.repeat(3 * 1024 * 1024))
  expect(await refused([])).toMatchObject({ code: 1, stdout: '', output: expect.stringContaining('not a stream') })
})

test('an app without a record is an error that names the one that was probably meant', async () => {
  await writeApps(join(folder, 'apps.json'), [appRecord('shop')])
  answer = (_, response) => response.end(JSON.stringify({ refusals: [], groups: [] }))
  const wrong = await refused(['--app', 'sohp'])
  expect(wrong).toMatchObject({ code: 1, output: 'sluice tail: there is no app sohp; did you mean shop?\n' })
  expect(asked).toEqual([])
  expect((await refused(['--app', '-', '--no-follow'])).code).toBe(0)
  expect(asked).toEqual(['/api/refusals?app=-&limit=1000 no token'])
})

test('--records does not go with it', async () => {
  expect((await refused(['--records'])).code).toBe(2)
})
