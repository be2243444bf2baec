import { Injectable } from '@nestjs/common';
import { JwtService } from '@nestjs/jwt';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import { hashed, isPassword } from './passwords.js';
import { type Role, User } from './user.entity.js';

/** Who calls: what the token says. */
export interface Caller {
  readonly id: string;
  readonly tenant: string;
  readonly role: Role;
}

/** A password that nobody has, so that an unknown name takes as long as a known one. */
const NOBODY = hashed(crypto.randomUUID());

@Injectable()
export class AuthService {
  constructor(
    @InjectRepository(User) private readonly users: Repository<User>,
    private readonly jwt: JwtService,
  ) {}

  /** @returns `undefined`: there is no such user, or it has another password */
  async login(id: string, password: string): Promise<Caller | undefined> {
    const select = { id: true, tenant: true, role: true, password: true } as const;
    const user = await this.users.findOne({ where: { id }, select });
    const isRight = await isPassword(password, user?.password ?? (await NOBODY));
    if (!user || !isRight) return undefined;
    return { id: user.id, tenant: user.tenant, role: user.role };
  }

  token({ id, tenant, role }: Caller): Promise<string> {
    return this.jwt.signAsync({ sub: id, tenant, role });
  }

  /** @throws if the token is forged, or too old */
  async callerOf(token: string): Promise<Caller> {
    const { sub, tenant, role } = await this.jwt.verifyAsync<Caller & { sub: string }>(
      token,
    );
    return { id: sub, tenant, role };
  }
}
