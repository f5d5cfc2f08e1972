/** The base of the image: a single image, which can be pinned by its digest. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { ROOT } from '../system/program.js'
import { readmePaths, readReadme } from '../kit/readmes.js'

const read = (file: string) => readFile(join(ROOT, 'docker', file), 'utf8')

t.test('everything is built on NODE_IMAGE, and a label of the image names it', async t => {
  const dockerfile = await read('Dockerfile')
  const bases = [...dockerfile.matchAll(/^FROM \$\{(\w+)\}(?: |$)/gm)].map(([, name]) => name)
  t.same(bases, ['NODE_IMAGE', 'NODE_IMAGE'])
  t.equal(dockerfile.match(/^FROM /gm)?.length, 2)
  t.match(dockerfile, /^ARG NODE_IMAGE=\S+$/m)
  // An ARG before FROM is known after it only if it is declared again.
  t.match(
    dockerfile,
    /^FROM \$\{NODE_IMAGE\}\nARG NODE_IMAGE\nLABEL org\.opencontainers\.image\.base\.name=\$\{NODE_IMAGE\}$/m,
  )
})

t.test('compose builds on the same image, which the environment can override', async t => {
  const [, base = ''] = /^ARG NODE_IMAGE=(\S+)$/m.exec(await read('Dockerfile')) ?? []
  const { services } = parse(await read('compose.yaml')) as {
    services: { sluice: { build: { args: unknown } }; app: { image: string } }
  }
  t.same(services.sluice.build.args, { NODE_IMAGE: `\${NODE_IMAGE:-${base}}` })
  t.equal(services.app.image, `\${NODE_IMAGE:-${base}}`)
})

t.test(
  'sluice is a command of the image, and its health check follows the command line of the proxy',
  async t => {
    const dockerfile = await read('Dockerfile')
    t.match(dockerfile, /^ENTRYPOINT \["sluice"\]$/m)
    t.match(dockerfile, / CMD \["sluice", "health", "--pid", "1"\]$/m)
    t.match(dockerfile, 'ln -s /app/dist/bin.js /out/usr/local/bin/sluice')
    t.match(dockerfile, 'chmod +x dist/bin.js')
  },
)

t.test('docker run in each README mounts an absolute path, which older engines require', async t => {
  const runs = readmePaths().flatMap(path => readReadme(path).match(/^docker run .*$/gm) ?? [])
  t.ok(runs.length > 0)
  for (const line of runs) t.notMatch(line, /(?:-v|--volume) \.\//)
})
