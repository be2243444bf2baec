import type { OAuthTokenVerifier } from '@modelcontextprotocol/server';
import {
  type CanActivate,
  type ExecutionContext,
  ForbiddenException,
  Inject,
  Injectable,
  Module,
  UnauthorizedException,
  UseGuards,
} from '@nestjs/common';
import {
  McpArgs,
  type McpContext,
  McpCtx,
  McpStreamableModule,
  Tool,
} from 'nestjs-mcp-streamable';
import { z } from 'zod';

/** Asks the authorization server; tests replace it. */
@Injectable()
export class AccessTokens implements OAuthTokenVerifier {
  async verifyAccessToken(): ReturnType<OAuthTokenVerifier['verifyAccessToken']> {
    throw new Error('There is no authorization server here.');
  }
}

@Injectable()
export class CustomerGuard implements CanActivate {
  constructor(@Inject(AccessTokens) private readonly tokens: AccessTokens) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context
      .switchToHttp()
      .getRequest<{ headers: { authorization?: string } }>();
    const [, token] = /^Bearer (.+)$/.exec(request.headers.authorization ?? '') ?? [];
    const verifier: OAuthTokenVerifier = this.tokens;
    const auth =
      token === undefined
        ? undefined
        : await verifier.verifyAccessToken(token).catch(() => undefined);
    if (!auth) throw new UnauthorizedException('Log in first.');
    if (!auth.scopes.includes('parcels:write'))
      throw new ForbiddenException('The token is for reading only.');
    return true;
  }
}

/** What parcels wait for. */
@Injectable()
export class Van {
  arrive!: () => void;
  readonly arrived = new Promise<void>((resolve) => (this.arrive = resolve));
}

const Parcel = z.object({ id: z.string() });
const Weight = z.object({ grams: z.number() });

@Injectable()
export class ParcelTools {
  constructor(@Inject(Van) private readonly van: Van) {}

  @Tool({
    name: 'weigh',
    description: 'Weighs a parcel',
    inputSchema: Parcel,
    outputSchema: Weight,
    annotations: { readOnlyHint: true },
  })
  weigh(@McpArgs('id') id: string): z.infer<typeof Weight> {
    return { grams: id.length * 100 };
  }

  @Tool({
    name: 'destroy',
    description: 'Destroys a parcel',
    inputSchema: Parcel,
    annotations: { destructiveHint: true },
  })
  @UseGuards(CustomerGuard)
  destroy(@McpArgs('id') id: string): string {
    return `${id} is no more.`;
  }

  @Tool({
    name: 'deliver',
    description: 'Delivers a parcel',
    inputSchema: Parcel,
    annotations: { destructiveHint: false },
  })
  async deliver(@McpArgs('id') id: string, @McpCtx() ctx: McpContext): Promise<string> {
    await ctx.progress(1, 2, 'waits for the van');
    await this.van.arrived;
    await ctx.progress(2, 2, 'is on its way');
    return `${id} is delivered.`;
  }

  @Tool({
    name: 'send_back',
    description: 'Sends a parcel back, if the user agrees',
    inputSchema: Parcel,
    annotations: { destructiveHint: false },
  })
  async sendBack(@McpArgs('id') id: string, @McpCtx() ctx: McpContext): Promise<string> {
    const requestedSchema = z.object({ reason: z.string() });
    const { action, content } = await ctx.elicit('reason', {
      message: `Why send ${id} back?`,
      requestedSchema,
    });
    return action === 'accept' ? `Sent back: ${content.reason}.` : 'Kept.';
  }
}

@Module({
  imports: [
    McpStreamableModule.forRoot({ serverInfo: { name: 'parcels', version: '1.0.0' } }),
  ],
  providers: [AccessTokens, CustomerGuard, ParcelTools, Van],
})
export class ParcelsModule {}
