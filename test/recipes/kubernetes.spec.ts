import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { NestFactory } from '@nestjs/core';
import { DockerfileParser } from 'dockerfile-ast';
import { Deployment, StatefulSet } from 'kubernetes-models/apps/v1';
import { Ingress, NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1';
import { Service } from 'kubernetes-models/v1';
import { McpSessionService } from 'nestjs-mcp-streamable';
import { createMcpTestClient } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { freePort } from '../../bench/harness/free-port.js';
import { describeRedis, RedisServer } from '../support/redis.js';

const folder = new URL('../../examples/kubernetes/', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, folder), 'utf8');

describe('the Dockerfile', () => {
  const file = DockerfileParser.parse(read('Dockerfile'));
  const instructions = file.getInstructions();
  const last = instructions.findLastIndex((each) => each.getKeyword() === 'FROM');
  const ofStage = (keyword: string, stage = instructions.slice(last)) =>
    stage.filter((each) => each.getKeyword() === keyword);
  const argumentsOf = (keyword: string): string =>
    ofStage(keyword)
      .map((each) => each.getArgumentsContent())
      .join('\n');

  it('the Dockerfile has two stages on images of a version, and takes into the last one only what the first has made', () => {
    const images = file.getFROMs().map((from) => from.getImage()!);
    expect(images).toHaveLength(2);
    for (const image of images) expect(image).toMatch(/^node:\d+-slim$/);
    const copies = file
      .getCOPYs()
      .filter(
        (copy) =>
          instructions.findIndex((each) => `${each.getRange()?.start.line}` === `${copy.getRange().start.line}`) > last,
      );
    expect(copies).toHaveLength(3);
    for (const copy of copies) expect(copy.getFlags().map(String)).toEqual(['--from=build']);
    expect(ofStage('RUN')).toEqual([]);
  });

  it('the Dockerfile installs exactly what the lock file has, and no development packages into the image', () => {
    const runs = ofStage('RUN', instructions.slice(0, last)).map((each) => each.getArgumentsContent());
    expect(runs).toEqual(['npm ci', 'npm run build && npm prune --omit=dev']);
  });

  it('the Dockerfile runs Node itself as a user who is not root, by number, as Kubernetes wants it', () => {
    expect(argumentsOf('USER')).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    const command = JSON.parse(argumentsOf('CMD')) as string[];
    expect(command[0]).toBe('node');
    expect(argumentsOf('ENV')).toContain('NODE_ENV=production');
  });

  it('the Dockerfile leaves secrets, and what is made, out of the image', () => {
    const ignored = read('.dockerignore').trim().split('\n');
    expect(ignored).toEqual(expect.arrayContaining(['.env*', '.git', 'node_modules', 'dist']));
  });
});

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  // oxlint-disable-next-line typescript/no-explicit-any -- the tests look into whatever is there
  readonly spec: any;
}

const MODELS = { Deployment, Ingress, NetworkPolicy, PodDisruptionBudget, Service, StatefulSet };
const files = readdirSync(new URL('k8s/', folder));
const manifests = files.flatMap((name) =>
  parseAllDocuments(read(`k8s/${name}`)).map((document) => document.toJS({ maxAliasCount: 0 }) as Manifest),
);
const find = (kind: string, name: string) =>
  manifests.find((each) => each.kind === kind && each.metadata.name === name)!;

/** @throws what the schema of Kubernetes says */
const validate = (manifest: Manifest): void => {
  const Model = MODELS[manifest.kind as keyof typeof MODELS] as new (data: object) => { validate(): void };
  new Model(manifest).validate();
};

describe('the manifests', () => {
  it.each(manifests.map((manifest) => [manifest.kind, manifest.metadata.name, manifest] as const))(
    'the manifests fit the schema of Kubernetes: %s %s',
    (_kind, _name, manifest) => {
      expect(() => validate(manifest)).not.toThrow();
    },
  );

  it('the manifests would not with a wrong type', () => {
    const { spec, ...manifest } = structuredClone(find('Deployment', 'mcp'));
    expect(() => validate({ ...manifest, spec: { ...spec, replicas: 'two' } })).toThrow('replicas');
    expect(() => validate({ ...manifest, spec: { replicas: 2 } })).toThrow('selector');
  });

  it('the manifests run two replicas, without a moment in which there are fewer', () => {
    const { spec } = find('Deployment', 'mcp');
    expect(spec).toMatchObject({ replicas: 2, strategy: { rollingUpdate: { maxUnavailable: 0 } } });
    expect(spec.selector.matchLabels).toEqual(spec.template.metadata.labels);
    expect(find('Service', 'mcp').spec.selector).toEqual(spec.template.metadata.labels);
    expect(find('PodDisruptionBudget', 'mcp').spec.selector).toEqual(spec.selector);
  });

  it('the manifests end pods later than preStop, shutdownDelayMs and drainMs together', () => {
    const { template } = find('Deployment', 'mcp').spec;
    const { terminationGracePeriodSeconds, containers } = template.spec;
    const [, drainMs] = /drainMs: ([\d_]+)/.exec(read('app.module.ts'))!;
    const needed = containers[0].lifecycle.preStop.sleep.seconds + 3 + Number(drainMs!.replaceAll('_', '')) / 1_000;
    expect(terminationGracePeriodSeconds).toBeGreaterThan(needed + 5);
  });

  it('restart no pod because Redis is away', () => {
    const { readinessProbe, livenessProbe, startupProbe } = find('Deployment', 'mcp').spec.template.spec.containers[0];
    expect(readinessProbe.httpGet.path).toBe('/health/ready');
    for (const probe of [livenessProbe, startupProbe]) expect(probe.httpGet.path).toBe('/health/live');
  });

  it.each(['Deployment', 'StatefulSet'])(
    'the manifests give the containers of a %s no rights that they do not need',
    (kind) => {
      const { spec } = manifests.find((each) => each.kind === kind)!.spec.template;
      expect(spec).toMatchObject({ automountServiceAccountToken: false, securityContext: { runAsNonRoot: true } });
      for (const container of spec.containers) {
        expect(container.image).toMatch(/:\d/);
        expect(container.resources.limits.memory).toBeDefined();
        expect(container.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
      }
    },
  );

  it('name what the app reads from its environment', () => {
    const { env } = find('Deployment', 'mcp').spec.template.spec.containers[0];
    const wanted = [...read('app.module.ts').matchAll(/setting\('(\w+)'\)/g)].map(([, name]) => name!);
    expect(env.map(({ name }: { name: string }) => name).toSorted()).toEqual(wanted.toSorted());
    // The key is a secret.
    expect(env.find(({ name }: { name: string }) => name === 'REQUEST_STATE_KEY').value).toBeUndefined();
  });
});

describeRedis(
  'the app of the image',
  () => {
    let redis: RedisServer;
    const settings = { ALLOWED_HOSTS: 'localhost', REQUEST_STATE_KEY: 'k'.repeat(44) };

    beforeEach(async () => {
      redis = await RedisServer.start();
      for (const [name, value] of Object.entries({ ...settings, REDIS_URL: redis.url })) vi.stubEnv(name, value);
    });

    afterEach(async () => {
      vi.unstubAllEnvs();
      await redis.stop();
    });

    it('the app of the image passes the health check of the Dockerfile, is not ready without Redis, and is alive all the same', async () => {
      const { AppModule } = await import('../../examples/kubernetes/app.module.js');
      const app = await NestFactory.create(AppModule, { logger: false, forceCloseConnections: true });
      const port = await freePort();
      await app.listen(port, '127.0.0.1');
      try {
        const status = async (path: string): Promise<number> =>
          (await fetch(`http://127.0.0.1:${port}/health/${path}`)).status;
        const [, check] = /HEALTHCHECK[^[]*CMD (\[.*\])/.exec(read('Dockerfile').replaceAll('\\\n', ''))!;
        const [, ...args] = JSON.parse(check!.replace(':3000/', `:${port}/`)) as string[];
        const exitCode = async (): Promise<unknown> => (await once(spawn(process.execPath, args), 'exit'))[0];
        const mcp = await createMcpTestClient(app);
        expect((await mcp.callTool('where')).isError).toBe(false);
        await mcp.close();
        // The bus may still be on its way to Redis.
        await expect.poll(() => status('ready')).toBe(200);
        expect([await status('live'), await exitCode()]).toEqual([200, 0]);
        await redis.kill();
        await expect.poll(() => status('ready')).toBe(503);
        expect([await status('live'), await exitCode()]).toEqual([200, 1]);
        await redis.start();
        await expect.poll(() => status('ready')).toBe(200);
        await app.get(McpSessionService, { strict: false }).terminateAll();
      } finally {
        await app.close();
      }
    });
  },
  'server',
);
