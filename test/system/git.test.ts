/** git clone and git push behind the proxy. */
import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { needs, proxyVariables, run, temporaryDirectory } from '../kit/processes/command.js'
import { gitBackend } from './git-origin.js'
import { makeCertificates, startOrigin } from './origin.js'
import { allowing, needsBuild, startSluice } from './program.js'

t.test('git', { skip: needs('git', 'openssl') || needsBuild() }, async t => {
  const certificates = await makeCertificates(t)
  const directory = await temporaryDirectory(t)
  const plain = await startOrigin(t, undefined, gitBackend(directory))
  const secure = await startOrigin(t, certificates, gitBackend(directory))
  const sluice = await startSluice(t, allowing(plain.port, secure.port))
  const env = {
    ...proxyVariables(sluice.proxyUrl, directory),
    GIT_SSL_CAINFO: certificates.ca,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_AUTHOR_NAME: 'test',
    GIT_AUTHOR_EMAIL: 'test@a.test',
    GIT_COMMITTER_NAME: 'test',
    GIT_COMMITTER_EMAIL: 'test@a.test',
  }
  const git = async (cwd: string, ...args: string[]) => {
    const { code, stdout, stderr } = await run('git', args, { env, cwd })
    if (code !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`)
    return stdout.trim()
  }
  await git(directory, 'init', '--quiet', '--bare', '--initial-branch=main', 'shared.git')
  await git(join(directory, 'shared.git'), 'config', 'http.receivepack', 'true')

  for (const origin of [plain, secure]) {
    const scheme = new URL(origin.url).protocol.slice(0, -1)
    await t.test(`clones, pushes and clones again by ${scheme}://`, async t => {
      const name = (suffix: string) => `${scheme}-${suffix}`
      const url = `${origin.url}/shared.git`
      // More than http.postBuffer (1 MiB), so that git sends it chunked.
      const content = randomBytes(2_500_000)
      await git(directory, 'clone', '--quiet', url, name('first'))
      const first = join(directory, name('first'))
      await writeFile(join(first, name('file')), content)
      await git(first, 'add', '.')
      await git(first, 'commit', '--quiet', '-m', 'a file')
      await git(first, 'push', '--quiet', 'origin', 'HEAD:main')
      await git(directory, 'clone', '--quiet', url, name('second'))
      t.ok(content.equals(await readFile(join(directory, name('second'), name('file')))))
    })
  }

  await t.test('prints the status of a refusal', async t => {
    const { code, stderr } = await run('git', ['clone', 'https://a.test/x.git'], { env, cwd: directory })
    t.equal(code, 128)
    t.match(stderr, /403/)
  })
})
