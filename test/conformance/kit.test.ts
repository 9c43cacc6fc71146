// What the kit says of a driver that does not keep to its format.

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, it } from 'vitest'
import { runAll, tableOf } from '../../clients/conformance/main.js'
import { SCENARIOS } from '../../clients/conformance/scenarios.js'
import { makeFolder } from '../support/service.ts'

const HELLO = `process.stdout.write('{"version":1,"sdk":"none","capabilities":[]}\\n')`
/** Obeys each command; `said` is run for one, whose name is `command`. */
const obedient = (said: string): string[] => [
  process.execPath,
  '-e',
  `${HELLO}
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { command, name } = JSON.parse(line)
    ${said}
    console.log(JSON.stringify({ done: command }))
  })`,
]
const POST = (body: string): string => `if (command === 'track') fetch(process.env.SLUICE_URL + '/api/v1/events', {
  method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '${body}' })`

async function runOne(command: readonly string[]): ReturnType<typeof runAll> {
  const results = await runAll(command, { only: ['without-flush'], timeoutMs: 4000 })
  expect(results.map(({ state }) => state)).toEqual(['failed'])
  return results
}

it.concurrent('does not start is said to be so, and no other scenario begins', async () => {
  const results = await runAll([resolve('no-such-program')])
  expect(results.filter(({ state }) => state === 'failed').length).toBeLessThan(9)
  expect(results.length).toBe(SCENARIOS.length)
  expect(tableOf(results)).toMatch(
    /driver: it does not start: .*ENOENT[^]*\d\d not run, since the driver does not start$/,
  )
})

it.concurrent.each([
  ['nothing', 'process.stdin.resume()', 'it did not print its first line, such as {"version": 1, '],
  ['no JSON', `console.log('ready'); process.stdin.resume()`, 'its first line is no JSON, such as {"version": 1, '],
  ['no version', `console.log('{}'); process.stdin.resume()`, 'its first line does not say "version": 1'],
  ['odd capabilities', HELLO.replace('[]', '[{"toString":1}]'), 'there is no capability {"toString":1}'],
])('says %s first: the table says what to print, and no other scenario begins', async (_, program, says) => {
  const results = await runAll([process.execPath, '-e', program])
  expect(results.filter(({ state }) => state === 'failed').length).toBeLessThan(9)
  expect(results.filter(({ state }) => state === 'not run').length).toBeGreaterThan(SCENARIOS.length - 9)
  expect(tableOf(results)).toContain(`driver: ${says}`)
})

it.concurrent.each([
  ['drops what is no text', `console.log('{"dropped":[{"toString":1}],"reason":"x"}')`, 'neither {"dropped"'],
  [
    'gives a reason that every object has',
    `if (name) console.log(JSON.stringify({ dropped: [name], reason: 'constructor' }))`,
    'dropped as constructor',
  ],
  [
    'writes a line without an end',
    `return void (function more() { process.stdout.write('x'.repeat(10_000), more) })()`,
    'a line is longer than',
  ],
  [
    'writes lines without an end',
    `const lines = '{"dropped":["x"],"reason":"y"}\\n'.repeat(999)
      return void (function more() { process.stdout.write(lines, more) })()`,
    'more than 100000 lines',
  ],
  [
    'sends what is no event',
    POST('{"events":[null,5,{"name":{"toString":1},"timestamp":{"toString":1}}]}'),
    'nobody tracked it',
  ],
  ['sends what is no app key', POST('{"app_key":{"toString":1},"client_report":5}'), 'the app key {"toString":1}'],
  ['asks for another path', `fetch(process.env.SLUICE_URL + '//', { method: 'POST' })`, 'not POST /api/v1/events'],
])('a driver that %s fails alone, and the table says so', async (_, said, says) => {
  expect(tableOf(await runOne(obedient(said)))).toContain(says)
})

it.concurrent('waits for no child that a driver leaves behind with its streams', async () => {
  const note = join(await makeFolder(), 'pid')
  const leave = `if (command === 'close') {
    const options = { detached: true, stdio: 'inherit' }
    const left = require('child_process').spawn('sleep', ['1000'], options)
    require('fs').writeFileSync('${note}', String(left.pid))
    left.unref()
  }`
  await runOne(obedient(leave))
  const left = Number(readFileSync(note, 'utf8'))
  expect(process.kill(left, 0)).toBe(true)
  process.kill(left)
})

it.concurrent('lacks a capability has its scenarios left out, and the table says so', async () => {
  const driver = `process.stdout.write('{"version":1,"sdk":"none","capabilities":[]}\\n');process.stdin.resume()`
  const without = await runAll([process.execPath, '-e', driver], { only: ['restart', 'opt-out'] })
  expect(without.map(({ state }) => state)).toEqual(['left out', 'left out'])
  expect(tableOf(without)).toContain('none: 0 held, 0 failed, 2 left out')
})

it.concurrent.each([
  [['--nope'], "Unknown option '--nope'"],
  [['--only', 'nope', '--', 'true'], 'there is no scenario nope'],
  [['--at-once', '0', '--', 'true'], 'node '],
])('is asked for with %j: what is wrong, and the usage, without a stack', (words, message) => {
  const { status, stderr } = spawnSync(process.execPath, [resolve('clients/conformance/main.js'), ...words], {
    encoding: 'utf8',
  })
  expect(status).toBe(2)
  expect(stderr).toContain(message)
  expect(stderr).toContain('[--only NAME,NAME…]')
  expect(stderr).not.toContain('    at ')
})
