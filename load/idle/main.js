// @ts-check
// `npm run idle`: what clients lose when a node closes a connection that they were about to use again, with and without
// the header that tells them how long it stays open. docs/balancers.md has the table.

import { spawn, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { table } from '../bench/report.js'
import { appKeyOf, startService } from '../bench/servers.js'
import { numberOption, runProgram, temporaryFolder } from '../shared/program.js'
import { startLine } from './line.js'

const HELP = `Usage: npm run idle -- [OPTIONS]

  --connections N   of each client (300)
  --delay-ms N      between client and node, each way (40)
`
const SILENCE_MS = [8000, 13_500]
/** Connections are opened over so long for each, so that none is refused. */
const START_MS_OF_A_CONNECTION = 8
const CLIENT_TIMEOUT_MS = 120_000

const here = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url))

/** @typedef {{ name: string, command: readonly string[], needs: readonly string[] }} Client */

/** @param {string} folder @returns {Client[]} */
function clientsIn(folder) {
  const go = `${folder}/client-go`
  const node = (/** @type {string} */ kind) => [process.execPath, here('client.js'), kind]
  const python = (/** @type {string} */ kind) => ['python3', here('client.py'), kind]
  return [
    { name: `Node ${process.version}, fetch`, command: node('fetch'), needs: [] },
    { name: `Node ${process.version}, http with a keepAlive agent`, command: node('http'), needs: [] },
    {
      name: `Node ${process.version}, http with a keepAlive agent that has a timeout of 60 s`,
      command: node('http-timeout'),
      needs: [],
    },
    { name: 'Go net/http', command: [go, 'plain'], needs: ['go', 'version'] },
    { name: 'Go net/http, with an Idempotency-Key', command: [go, 'keyed'], needs: ['go', 'version'] },
    { name: 'Go net/http, IdleConnTimeout 7 s', command: [go, 'short'], needs: ['go', 'version'] },
    { name: 'Python requests', command: python('plain'), needs: ['python3', '-c', 'import requests'] },
    {
      name: 'Python requests, with an Idempotency-Key and 2 retries',
      command: python('keyed'),
      needs: ['python3', '-c', 'import requests'],
    },
  ]
}

/** @param {number} connections @param {number} delayMs */
async function measure(connections, delayMs) {
  const folder = temporaryFolder('idle')
  const clients = clientsIn(folder).filter(({ name, needs: [program, ...args] }) => {
    const isHere = program === undefined || spawnSync(program, args, { stdio: 'ignore' }).status === 0
    if (!isHere) console.log(`not run: ${name}`)
    return isHere
  })
  if (clients.some(({ needs }) => needs[0] === 'go')) build(`${folder}/client-go`)
  const service = await startService()
  /** @type {string[][]} */
  const columns = []
  for (const tellsIdleTime of [false, true]) {
    console.log(`… ${connections} connections of each client, ${tellsIdleTime ? 'with' : 'without'} the header`)
    const line = await startLine({ port: service.port, delayMs, tellsIdleTime })
    const job = JSON.stringify({
      url: `http://127.0.0.1:${line.port}/api/v1/events`,
      appKey: appKeyOf(0),
      connections,
      startMs: connections * START_MS_OF_A_CONNECTION,
      leastMs: SILENCE_MS[0],
      mostMs: SILENCE_MS[1],
    })
    columns.push(await Promise.all(clients.map(({ command }) => lost(command, job))))
    line.stop()
  }
  await service.stop()
  const rows = clients.map(({ name }, at) => ({ name, without: columns[0][at], withIt: columns[1][at] }))
  const title = `Lost of ${connections} requests after a silence of 8 to 13.5 s, ${delayMs} ms away, sluice on Node ${process.version}`
  const text = table(title, rows, { markdown: true }, [
    ['client', ({ name }) => name],
    ['without the header', ({ without }) => without],
    ['with it', ({ withIt }) => withIt],
  ])
  console.log(`\n${text}`)
}

/** @param {string} file */
function build(file) {
  const { status, stderr } = spawnSync('go', ['build', '-o', file, here('client.go')], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`go build: ${stderr}`)
}

/** Runs a client, which prints how many of its requests were lost. @param {readonly string[]} command @param {string} job */
async function lost([file, ...args], job) {
  const child = spawn(file, [...args, job], { stdio: ['ignore', 'pipe', 'inherit'], timeout: CLIENT_TIMEOUT_MS })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (output += text))
  const code = await new Promise((resolve) => child.once('close', resolve))
  if (code !== 0 || !/^\d+\n$/.test(output)) throw new Error(`${file} ${args.join(' ')}: ended with ${code}: ${output}`)
  return output.trim()
}

await runProgram({
  name: 'idle',
  help: HELP,
  options: { connections: { type: 'string', default: '300' }, 'delay-ms': { type: 'string', default: '40' } },
  run: async (values) => {
    const connections = numberOption('connections', values.connections, 1, 5000)
    await measure(connections, numberOption('delay-ms', values['delay-ms'], 0, 1000))
    return true
  },
})
