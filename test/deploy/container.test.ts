// The image without an engine: what its Dockerfile says is held against the service, and the two scripts that it brings
// are run. deploy/image/try.sh builds and runs the whole, where it may.

import { spawn, spawnSync } from 'node:child_process'
import { cp, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { beforeEach, describe, expect, it } from 'vitest'
import { readConfig } from '../../src/settings/config.ts'
import { makeFolder, startService } from '../support/service.ts'
import { copiedFromContext, execForm, isSent, last, named, pairsOf, parseDockerfile } from './dockerfile.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const inRoot = (path: string): Promise<string> => readFile(join(ROOT, path), 'utf8')

const dockerfile = parseDockerfile(await inRoot('Dockerfile'))
const ignoreFile = await inRoot('.dockerignore')
const manifest = JSON.parse(await inRoot('package.json')) as { version: string; scripts: { start: string } }
const final = dockerfile.stages[dockerfile.stages.length - 1]
const environment = Object.assign({}, ...named(final, 'ENV').map(pairsOf)) as Record<string, string>

let folder: string
beforeEach(async () => {
  folder = await makeFolder()
})

describe('the Dockerfile', () => {
  it('builds and runs on one base, with the C library that the engine wants', () => {
    expect(dockerfile.args['BASE']).toMatch(/^node:24\.\d+\.\d+-trixie-slim@sha256:[0-9a-f]{64}$/)
    expect(dockerfile.stages.map(({ alias, base }) => [alias, base])).toEqual([
      ['build', '${BASE}'],
      ['runtime', '${BASE}'],
    ])
  })

  it('installs what the lock file names, at its version and hash', () => {
    const [build] = dockerfile.stages
    expect(named(build, 'RUN').map(({ text }) => text.split(' --')[0])).toContain('npm ci')
  })

  it('runs node itself as process 1, as npm start does', () => {
    const program = execForm(last(final, 'ENTRYPOINT').text)
    const [main] = program.splice(-1)
    expect(main).toBe(`${last(final, 'WORKDIR').text}/dist/main.js`)
    const line = [...program, 'dist/main.js', ...execForm(last(final, 'CMD').text)]
    expect(line.join(' ')).toBe(manifest.scripts.start)
    expect(last(final, 'STOPSIGNAL').text).toBe('SIGTERM')
  })

  it('runs as a user who is not root, by number', () => {
    const [, uid, gid] = /^(\d+):(\d+)$/.exec(last(final, 'USER').text) ?? []
    expect([Number(uid), Number(gid)]).toEqual([1000, 1000])
    // Whoever runs it owns the folder it writes to, before that becomes a volume.
    const { SLUICE_DATA_DIR: data } = environment
    expect(last(final, 'RUN').text).toMatch(new RegExp(`--owner=${uid} --group=${gid} \\S+ ${data} `))
    expect(last(final, 'VOLUME').text).toBe(data)
  })

  it('exposes the ports that the settings have by default', () => {
    const { publicPort, adminPort } = readConfig({})
    expect(last(final, 'EXPOSE').text).toBe(`${publicPort} ${adminPort}`)
  })

  it('sets what the service knows, and opens the admin port to probes from outside', () => {
    expect(readConfig(environment)).toMatchObject({ adminHost: '::', dataDirectory: '/var/lib/sluice' })
  })

  it('names the version of the package', () => {
    const labels = Object.assign({}, ...named(final, 'LABEL').map(pairsOf)) as Record<string, string>
    expect(labels['org.opencontainers.image.version']).toBe('${VERSION}')
    expect(Object.assign({}, ...named(final, 'ARG').map(pairsOf))).toMatchObject({ VERSION: manifest.version })
  })

  it('copies what is there, and the builder is sent that and nothing else', async () => {
    const sources = copiedFromContext(dockerfile)
    expect(sources.length).toBeGreaterThan(5)
    for (const source of sources) await expect(stat(join(ROOT, source)), source).resolves.toBeTruthy()
    const kept = ignoreFile.split('\n').filter((line) => line.startsWith('!'))
    expect(kept.map((line) => line.slice(1)).toSorted()).toEqual([...new Set(sources)].toSorted())
    const sent = (await readdir(ROOT)).filter((name) => isSent(name, ignoreFile))
    expect(sent.filter((name) => !sources.includes(name))).toEqual([])
    for (const source of sources) expect([source, isSent(source, ignoreFile)]).toEqual([source, true])
    expect(isSent('src/http/server.ts', ignoreFile)).toBe(true)
    expect(
      ['.git/config', 'node_modules/pino/pino.js', 'test/unit/x.ts'].filter((path) => isSent(path, ignoreFile)),
    ).toEqual([])
  })
})

describe('the health check', () => {
  const [, command] = /CMD (.*)$/.exec(last(final, 'HEALTHCHECK').text) ?? []
  const [program, path] = execForm(command)
  const script = join(ROOT, copiedFromContext(dockerfile).find((source) => basename(source) === basename(path)) ?? '')

  /** Not spawnSync: the service's output would wait meanwhile. */
  function checkHealth(env: Record<string, string>): Promise<{ code: number | null; said: string }> {
    expect(program).toBe('node')
    const child = spawn(process.execPath, [script], { env, stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    child.stderr.on('data', (text: Buffer) => (said += text.toString()))
    return new Promise((done) => child.once('close', (code) => done({ code, said })))
  }

  it.each(['', '127.0.0.1', '0.0.0.0', '::', '::1'])('asks a node that listens at "%s"', async (host) => {
    const service = await startService({ dataDir: folder, env: { SLUICE_ADMIN_HOST: host } })
    const settings = { SLUICE_ADMIN_HOST: host, SLUICE_ADMIN_PORT: String(service.adminPort) }
    expect(await checkHealth(settings)).toEqual({ code: 0, said: '' })
    await service.stop()
    expect(await checkHealth(settings)).toEqual({ code: 1, said: expect.stringContaining('ECONNREFUSED') })
  })

  it('takes a node that does not answer for dead, in less time than it is given', async () => {
    const service = await startService({ dataDir: folder })
    service.signal('SIGSTOP')
    const found = await checkHealth({ SLUICE_ADMIN_PORT: String(service.adminPort) })
    service.signal('SIGCONT')
    await service.stop()
    expect(found).toEqual({ code: 1, said: expect.stringContaining('timeout') })
    const allowedMs = 1000 * Number(last(final, 'HEALTHCHECK').flags['timeout'].replace('s', ''))
    const ownMs = Number(/TIMEOUT_MS = (\d+)/.exec(await readFile(script, 'utf8'))?.[1])
    expect(ownMs).toBeLessThan(allowedMs)
  })

  it('asks the port that the settings have by default', async () => {
    expect(await readFile(script, 'utf8')).toContain(`SLUICE_ADMIN_PORT || '${readConfig({}).adminPort}'`)
  })
})

describe('pruning', () => {
  const binary = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`
  const prune = (): ReturnType<typeof spawnSync> =>
    spawnSync(process.execPath, [join(ROOT, 'deploy/image/prune.js'), folder], { encoding: 'utf8' })

  /** The real engine, without the 250 MB of its other binaries. */
  async function install(): Promise<void> {
    const from = join(ROOT, 'node_modules/uWebSockets.js')
    const others = ['uws_win32_x64_115.node', `uws_${process.platform}_${process.arch}_1.node`]
    await mkdir(join(folder, 'uWebSockets.js/docs'), { recursive: true })
    for (const name of ['package.json', 'uws.js', 'ESM_wrapper.mjs', 'LICENSE', binary]) {
      await cp(join(from, name), join(folder, 'uWebSockets.js', name))
    }
    for (const name of others) await writeFile(join(folder, 'uWebSockets.js', name), 'another')
    await mkdir(join(folder, '@scope/other/lib'), { recursive: true })
    for (const name of ['LICENSE.md', 'README.md', 'lib/index.js', 'lib/index.d.ts', 'lib/index.js.map']) {
      await writeFile(join(folder, '@scope/other', name), '')
    }
  }

  it('leaves an engine that loads, with the binary of this Node alone', async () => {
    await install()
    expect(prune()).toMatchObject({ status: 0, stderr: '' })
    expect((await readdir(join(folder, 'uWebSockets.js'))).toSorted()).toEqual(
      ['ESM_wrapper.mjs', 'LICENSE', 'package.json', binary, 'uws.js'].toSorted(),
    )
    const wrapper = pathToFileURL(join(folder, 'uWebSockets.js/ESM_wrapper.mjs')).href
    const { status, stdout } = spawnSync(
      process.execPath,
      ['--input-type=module', '-e', `import { App } from '${wrapper}'; console.log(typeof App); process.exit()`],
      { encoding: 'utf8' },
    )
    expect([status, stdout]).toEqual([0, 'function\n'])
  })

  it('takes maps, types and papers out of packages, but no licence', async () => {
    await install()
    prune()
    const left = await readdir(join(folder, '@scope/other'), { recursive: true })
    expect(left.toSorted()).toEqual(['LICENSE.md', 'lib', 'lib/index.js'])
  })

  it('fails the build where there is no binary for this Node', async () => {
    await install()
    await cp(join(folder, 'uWebSockets.js/uws_win32_x64_115.node'), join(folder, 'uWebSockets.js', binary))
    expect(prune()).toMatchObject({ status: 1, stderr: expect.stringContaining('uWS.js supports') })
  })
})
