// The package as others get it: its lock file, and the tarball that npm would publish, installed elsewhere.

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { eventually, makeFolder } from '../support/service.ts'

const CHECKOUT = resolve(import.meta.dirname, '../..')

let folder: string
beforeEach(async () => {
  folder = await makeFolder()
})

const npm = (cwd: string, ...args: string[]): string =>
  execFileSync('npm', [...args, '--no-audit', '--no-fund', '--loglevel=error'], { cwd, encoding: 'utf8' })

it('npm ci takes the lock file: it names the packages of every system', async () => {
  for (const name of ['package.json', 'package-lock.json']) await cp(join(CHECKOUT, name), join(folder, name))
  expect(npm(folder, 'ci', '--dry-run')).toContain('added ')
})

it('npm 10, 11 and 12 leave the lock file as it is: it does not say which C library a package is for', async () => {
  // npm 10 takes `libc` out, and the later ones put it into an entry only when they make it: `npx npm@10 install` mends it.
  expect(await readFile(join(CHECKOUT, 'package-lock.json'), 'utf8')).not.toContain('"libc"')
})

it('the tarball of npm pack, installed elsewhere, serves, and its printed curl line gets a 202', async () => {
  npm(CHECKOUT, 'pack', '--pack-destination', folder)
  const [tarball] = await readdir(folder)
  const elsewhere = join(folder, 'elsewhere')
  await mkdir(elsewhere)
  await writeFile(join(elsewhere, 'package.json'), '{}')
  npm(elsewhere, 'install', '--prefer-offline', join(folder, tarball))
  expect(
    await readdir(join(elsewhere, 'node_modules')),
    'what compiles comes only where it is asked for',
  ).not.toContain('simdjson')

  const service = spawn('npx', ['--no', 'sluice', 'serve'], {
    cwd: elsewhere,
    env: { ...process.env, SLUICE_DATA_DIR: join(folder, 'data'), PORT: '0', SLUICE_ADMIN_PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own, so that the signal below reaches the service beneath npx.
    detached: true,
  })
  const ended = once(service, 'close')
  try {
    let output = ''
    for (const stream of [service.stdout, service.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    }
    await eventually('it listens', () => output.includes('"msg":"listening"') && /^curl .*\n/m.test(output))
    const [curl] = /^curl .*$/m.exec(output) ?? []
    expect(curl, output).toBeDefined()
    expect(execFileSync('sh', ['-c', String(curl)], { encoding: 'utf8' })).toMatch(/^HTTP\/1\.1 202 /)
  } finally {
    if (service.pid !== undefined && service.exitCode === null) process.kill(-service.pid, 'SIGTERM')
    await ended
  }
})
