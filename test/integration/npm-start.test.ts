import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const checkout = fileURLToPath(new URL('../..', import.meta.url))
const README = readFileSync(join(checkout, 'README.md'), 'utf8')
const run = (line: string): string => execFileSync('sh', ['-c', line], { encoding: 'utf8' })

it('npm start with only a folder and ports set serves, its printed curl line gets what the README says, and its stdout is JSON', async () => {
  const place = mkdtempSync(join(tmpdir(), 'sluice-start-'))
  const npm = spawn('npm', ['start'], {
    cwd: checkout,
    env: { ...process.env, SLUICE_DATA_DIR: join(place, 'data'), PORT: '0', SLUICE_ADMIN_PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A process group of its own, so that the signal below reaches the service like one of a terminal.
    detached: true,
  })
  try {
    let stdout = ''
    let stderr = ''
    const curl = await new Promise<string>((resolve, reject) => {
      const look = (): void => {
        const line = /^curl .*\n/m.exec(stderr)
        if (line !== null && stdout.includes('"msg":"listening"')) resolve(line[0])
      }
      npm.stdout.on('data', (chunk: Buffer) => {
        stdout += chunk.toString()
        look()
      })
      npm.stderr.on('data', (chunk: Buffer) => {
        stderr += chunk.toString()
        look()
      })
      npm.on('exit', (code) => reject(new Error(`npm start ended with ${code}:\n${stdout}${stderr}`)))
    })
    // npm itself begins with empty lines and lines such as `> sluice@0.1.0 start`; `npm start --silent` leaves them out.
    const lines = stdout.split('\n').filter((line) => line !== '' && !line.startsWith('> '))
    for (const line of lines) expect(() => JSON.parse(line) as unknown, line).not.toThrow()
    const answer = run(curl)
    expect(answer).toMatch(/^HTTP\/1\.1 202 /)
    expect(answer).toContain('{"status":"accepted","events":1}')
    // What the README asks the reader to try with that line.
    const [, key = ''] = /add `(-H '[^']+')`/.exec(README) ?? []
    for (const repeat of ['', ',"deduplicated":true']) {
      expect(run(`${curl.trim()} ${key}`)).toContain(`{"status":"accepted","events":1${repeat}}`)
    }
    const [, member = '', said = ''] = /take `([^`]+)` out. The answer is 400, `([^`]+)`/.exec(README) ?? []
    expect(curl).toContain(member)
    const refused = run(curl.replace(member, ''))
    expect(refused).toMatch(/^HTTP\/1\.1 400 /)
    expect(refused).toContain(`"message":"${said}"`)
  } finally {
    // Its output closes when the service has ended, which is after npm, because of the last snapshot.
    const ended = new Promise((resolve) => npm.on('close', resolve))
    if (npm.pid !== undefined && npm.exitCode === null) process.kill(-npm.pid, 'SIGTERM')
    await ended
    rmSync(place, { recursive: true, force: true })
  }
})
