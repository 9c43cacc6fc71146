// @ts-check
// `npm run load -- NAME`: runs a k6 script of load/k6 against the service at BASE_URL, or against a node that it starts
// for the run, and ends with k6's exit code, or with 1 where only what was found afterwards is wrong.

import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { endAll } from '../test/support/processes.js'
import { defaultsOf, QUESTIONS } from './k6/shared/defaults.js'
import { COMMON_SETTINGS, readSettings } from './k6/shared/settings.js'
import { AMPLE_KEY, apps } from './run/apps.js'
import { divideCores } from './run/cores.js'
import { findK6, k6Version, runK6, stopK6 } from './run/k6.js'
import { writePacks } from './run/packs.js'
import { probe } from './run/probe.js'
import { SCRIPTS } from './run/scripts.js'
import { clearReport, closeRun } from './run/verify.js'
import { busyLine, isBusy, loadNow, machineOf } from './shared/machine.js'
import { temporaryFolder } from './shared/program.js'
import { startService } from './shared/service.js'

const SETTING_COLUMN = 28
const EXIT = { failed: 1, interrupted: 130 }
/** k6's own code. */
const THRESHOLDS_BROKEN = 99

/** @param {string} name */
function optionOf(name) {
  return name.toLowerCase().replaceAll('_', '-')
}

/** @param {Readonly<Record<string, string>>} settings @param {import('./k6/shared/defaults.js').Defaults} defaults */
function settingLines(settings, defaults) {
  const shown = (/** @type {string} */ name) => ((defaults[name] ?? '') === '' ? '' : ` (${defaults[name]})`)
  return Object.entries(settings)
    .map(([name, text]) => `  --${optionOf(name)}`.padEnd(SETTING_COLUMN) + text + shown(name))
    .join('\n')
}

function list() {
  return Object.entries(QUESTIONS)
    .map(([name, question]) => `  ${name.padEnd(14)}${question}`)
    .join('\n')
}

/** @param {string | undefined} name */
function help(name) {
  const own = name === undefined ? {} : (SCRIPTS[name]?.settings ?? {})
  return `Usage: npm run load -- NAME [OPTIONS]

${list()}

Each option is an environment variable too: --vus 50 is VUS=50.
${settingLines(COMMON_SETTINGS, defaultsOf(name))}
${settingLines(own, defaultsOf(name))}
  --keep                    keeps the folder of the local node
  --list                    the scripts
  --help                    after NAME: with the settings of that script

k6 is taken from K6, from PATH, or from Go's folder of programs. docs/load.md says more.
`
}

/** @param {string[]} args */
function readArguments(args) {
  const names = [
    ...Object.keys(COMMON_SETTINGS),
    ...Object.values(SCRIPTS).flatMap(({ settings }) => Object.keys(settings ?? {})),
  ]
  const text = Object.fromEntries(names.map((name) => [optionOf(name), /** @type {const} */ ({ type: 'string' })]))
  const flag = /** @type {const} */ ({ type: 'boolean', default: false })
  const { values: parsed, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { ...text, keep: flag, list: flag, help: { ...flag, short: 'h' } },
  })
  const values = /** @type {Record<string, string | boolean | undefined>} */ (parsed)
  const script = positionals[0] ?? ''
  const known = new Set([...Object.keys(COMMON_SETTINGS), ...Object.keys(SCRIPTS[script]?.settings ?? {})])
  const foreign = names.filter((name) => !known.has(name) && values[optionOf(name)] !== undefined)
  if (Object.hasOwn(SCRIPTS, script) && foreign.length > 0)
    throw new Error(`${script} has no --${optionOf(foreign[0])}: see npm run load -- ${script} --help`)
  /** @type {Record<string, string>} */
  const given = {}
  for (const name of names) {
    const value = values[optionOf(name)] ?? process.env[name]
    if (typeof value === 'string' && value !== '') given[name] = value
  }
  return {
    name: script === '' ? undefined : script,
    extra: positionals.slice(1),
    given,
    keep: values.keep === true,
    list: values.list === true,
    help: values.help === true,
  }
}

/** Before anything is started: what every script understands. k6 checks a script's own settings. @param {string} name @param {Record<string, string>} given */
function checkSettings(name, given) {
  if (given.BASE_URL !== undefined && given.APP_KEY === undefined)
    throw new Error('APP_KEY: which app of the service at BASE_URL sends?')
  readSettings({ BASE_URL: 'http://127.0.0.1', APP_KEY: AMPLE_KEY, ...given }, { script: name }).check()
}

/**
 * @param {Record<string, string>} given @param {string} name @param {string} folder
 * @returns {Promise<{ environment: Record<string, string>, node: import('./shared/service.js').Service | null, place: readonly string[] }>}
 */
async function prepare(given, name, folder) {
  const { node: nodeEnvironment = {}, environment = {}, apps: ownApps = () => [] } = SCRIPTS[name]
  if (given.BASE_URL !== undefined) {
    await probe(given.BASE_URL, given.APP_KEY)
    return { environment: given, node: null, place: [] }
  }
  const dataDir = join(folder, 'node')
  mkdirSync(dataDir)
  const isPinned = (given.PIN ?? environment.PIN ?? '0') === '1'
  const places = divideCores(isPinned)
  const node = await startService({
    dataDir,
    apps: [...apps(), ...ownApps(given)],
    env: nodeEnvironment,
    before: places.node,
  })
  const [baseUrl, adminUrl] = [node.port, node.adminPort].map((port) => `http://127.0.0.1:${port}`)
  console.log(`a node at ${baseUrl}, admin port at ${adminUrl}, data in ${dataDir}`)
  const local = { LOCAL_NODE: '1', BASE_URL: baseUrl, ADMIN_URL: adminUrl, APP_KEY: AMPLE_KEY }
  return { environment: { ...local, ...environment, ...given }, node, place: places.k6 }
}

/** @param {{ name: string, given: Record<string, string>, folder: string }} options @returns {Promise<number>} */
async function runScript({ name, given, folder }) {
  const k6 = findK6()
  checkSettings(name, given)
  const out = resolve(
    given.OUT ?? join('load', 'reports', `${name}-${new Date().toISOString().replace(/[-:]|\..*/g, '')}`),
  )
  const load = await loadNow()
  if (isBusy(load)) console.log(busyLine(load))
  const { environment: prepared, node, place } = await prepare(given, name, folder)
  mkdirSync(out, { recursive: true })
  await clearReport(out)
  /** @type {Record<string, string>} */
  const environment = { ...prepared, ...writePacks(folder, name, prepared) }
  const { code, interruption } = await runK6({ k6, name, environment: { ...environment, OUT: out }, place })
  const on = { ...machineOf(out), k6: k6Version(k6), load }
  const isWell = await closeRun({ name, out, dataDir: node?.dataDir, interruption, on })
  await node?.stop()
  if (code === THRESHOLDS_BROKEN) return code
  return code === 0 && isWell ? 0 : EXIT.failed
}

async function main() {
  const { name, extra, given, keep, list: isList, help: isHelp } = readArguments(process.argv.slice(2))
  if (isList) return console.log(list())
  if (isHelp || name === undefined) {
    console.log(help(name))
    process.exitCode = isHelp ? 0 : EXIT.failed
    return
  }
  if (!Object.hasOwn(SCRIPTS, name) || extra.length > 0)
    throw new Error(`no such script: ${[name, ...extra].join(' ')}\n${list()}`)
  const folder = temporaryFolder('load', { isKept: keep })
  // k6 ends its run at a signal and still writes its report; a second signal ends everything at once.
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    let signals = 0
    process.on(signal, () => {
      process.exitCode = EXIT.interrupted
      if (++signals > 1 || !stopK6()) void endAll().finally(() => process.exit(EXIT.interrupted))
    })
  }
  try {
    const code = await runScript({ name, given, folder })
    // A signal has said already what the run ends with.
    process.exitCode ??= code
  } finally {
    await endAll()
  }
}

main().catch((/** @type {unknown} */ error) => {
  process.exitCode = EXIT.failed
  console.error(`load: ${error instanceof Error ? error.message : String(error)}`)
})
