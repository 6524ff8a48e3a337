"""Words of a text: folding, tokens, stop words, stems. Pure functions of text."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol, cast

from fastassoc.errors import InvalidInput
from fastassoc.scripts import FIRST, JOINED, UNSPACED, characters, is_unspaced, joined, pairs

__all__ = [
    "COMMON_WORDS",
    "STARTERS",
    "STOP_WORDS",
    "Stemmer",
    "casefold",
    "fold",
    "spans",
    "terms",
    "tokens",
    "units",
    "units_of",
    "word_set",
    "written_terms",
]

MAX_STEMMED: Final = 64  # a longer token is no word; stemming it costs time and gives nothing


def _is_kept_mark(code: int) -> bool:
    """Whether a mark is a letter's own sound (a vowel sign of an Indic or Thai script)."""
    char = chr(code)
    return (
        (0x0900 <= code < 0x1D00 or 0xA800 <= code < 0xAC00)
        and unicodedata.category(char) in ("Mn", "Mc")
        and not unicodedata.combining(char)
    )


class _Marks(dict[int, int | None]):
    """A table for `str.translate` that drops combining marks; it fills itself."""

    def __missing__(self, code: int) -> int | None:
        mark = unicodedata.category(chr(code))[0] == "M" and not _is_kept_mark(code)
        value = self[code] = None if mark else code
        return value


_marks = _Marks({ord("ı"): ord("i")})
_KEPT = "".join(chr(c) for r in ((0x900, 0x1D00), (0xA800, 0xAC00)) for c in range(*r)
                if _is_kept_mark(c))  # fmt: skip
_ascii_tokens = re.compile(r"[a-z0-9]+").findall
_written_tokens = re.compile(r"[A-Za-z0-9]+").findall
_any_token = re.compile(rf"(?:[^\W_]|[{_KEPT}])+")
_any_tokens = _any_token.findall
_find_unspaced = re.compile(f"[{UNSPACED}]").search
_spaced = rf"(?:[^\W_{UNSPACED}]|[{''.join(c for c in _KEPT if not is_unspaced(c))}])+"
_mixed_token = re.compile(rf"[{UNSPACED}]+|{_spaced}")
_all_unspaced = re.compile(f"[{JOINED}{UNSPACED}]+").fullmatch


def fold(text: str) -> str:
    """Fold a text for comparing: Unicode NFKD, combining marks dropped, case folded.

    The dotless i of Turkish becomes the i that its capital becomes, too. Vowel signs that carry a
    combining class of 0 (Devanagari, Thai ...) are part of their word and stay.

    Examples
    --------
    >>> fold("Crème Brûlée"), fold("Größe")
    ('creme brulee', 'grosse')
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKD", text).translate(_marks).casefold()


def casefold(text: str) -> str:
    r"""Fold a name: Unicode NFKC, casefold, inner white space collapsed to one space, trimmed.

    Examples
    --------
    >>> casefold("  Straße  nach\tROM ")
    'strasse nach rom'
    """
    if text.isascii():
        return " ".join(text.lower().split())
    # once more after casefold, which may leave a decomposed character
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def tokens(text: str) -> list[str]:
    """Runs of letters or digits, of any script, of the folded text, in order.

    A run of scripts that write no spaces (see `scripts`) is one token, apart from its neighbours.

    Examples
    --------
    >>> tokens("Node.js isn't São-Paulo's 2nd_try")
    ['node', 'js', 'isn', 't', 'sao', 'paulo', 's', '2nd', 'try']
    >>> tokens("2024年のAI技術")
    ['2024', '年の', 'ai', '技術']
    """
    if text.isascii():
        return cast(list[str], _ascii_tokens(text.lower()))
    folded = fold(text)
    if folded.isascii():
        return cast(list[str], _ascii_tokens(folded))
    return _tokens_of(folded)


def _tokens_of(text: str) -> list[str]:
    if max(text, default="") >= FIRST and _find_unspaced(text):
        return cast(list[str], _mixed_token.findall(text))
    return cast(list[str], _any_tokens(text))


def units(text: str) -> list[str]:
    """What names are found by: the `tokens` of a text, but runs without spaces by character.

    Each character that follows another of its run begins with `scripts.JOINED`, so that a name is
    found within a run, and never across the comma between two.

    Examples
    --------
    >>> units("Ask me"), [unit.strip("\u2060") for unit in units("AI技術")]
    (['ask', 'me'], ['ai', '技', '術'])
    """
    words = tokens(text)
    return words if text.isascii() else units_of(words)


def units_of(words: list[str]) -> list[str]:
    """The `units` of a text with these `tokens`.

    Examples
    --------
    >>> [unit.strip("\u2060") for unit in units_of(["ai", "技術"])]
    ['ai', '技', '術']
    """
    return _replaced(words, joined)


def terms(text: str) -> list[str]:
    """What the text index counts: the `tokens` of a text, but of runs without spaces the pairs.

    Examples
    --------
    >>> terms("Ask me"), terms("AI技術部")
    (['ask', 'me'], ['ai', '技術', '術部'])
    """
    words = tokens(text)
    return words if text.isascii() else _replaced(words, pairs)


def _replaced(words: list[str], parts: Callable[[str], list[str]]) -> list[str]:
    """Words, with the parts of a run without spaces in place of it."""
    if not any(map(is_unspaced, words)):
        return words
    out: list[str] = []
    for word in words:
        if is_unspaced(word):
            out += parts(word)
        else:
            out.append(word)
    return out


def written_terms(text: str) -> tuple[list[str], list[bool]]:
    """The `terms` of a text, and which of them begin with a capital in it as written.

    Examples
    --------
    >>> written_terms("The Élan of 3Com")
    (['the', 'elan', 'of', '3com'], [True, True, False, False])
    """
    if text.isascii():
        written = _written_tokens(text)
        return " ".join(written).lower().split(), ["A" <= word < "[" for word in written]
    words = tokens(text)
    written = _tokens_of(unicodedata.normalize("NFC", text))
    if len(written) == len(words):
        upper = [word[0].isupper() for word in written]
    else:
        places = iter(spans(text))
        upper = []
        for word in words:
            upper.append(text[next(places)[0]].isupper())
            if is_unspaced(word):
                for _ in characters(word)[1:]:
                    next(places)
    if not any(map(is_unspaced, words)):
        return words, upper
    found: list[str] = []
    marks: list[bool] = []
    for word, capital in zip(words, upper, strict=True):
        parts = pairs(word) if is_unspaced(word) else [word]
        found += parts
        marks += [capital] * len(parts)
    return found, marks


def spans(text: str) -> list[tuple[int, int]]:
    """Where the `units` of a text stand in it as written: first character, and the one behind.

    Examples
    --------
    >>> text = "The Time-Outs!"
    >>> [text[start:stop] for start, stop in spans(text)]
    ['The', 'Time', 'Outs']
    """
    if text.isascii():
        return [match.span() for match in _any_token.finditer(text.lower())]
    pieces = [fold(char) for char in text]
    places = [place for place, piece in enumerate(pieces) for _ in piece]
    folded = "".join(pieces)
    token = _mixed_token if _find_unspaced(folded) else _any_token
    out = []
    for match in token.finditer(folded):
        at, word = match.start(), match.group()
        for part in characters(word) if is_unspaced(word) else [word]:
            start, at = at, at + len(part)
            stop = places[at - 1] + 1
            while stop < len(text) and not pieces[stop]:
                stop += 1  # a mark of the last letter
            out.append((places[start], stop))
    return out


class _Snowball(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802


class Stemmer:
    """Snowball stems with a bounded cache; safe in many threads.

    The Python implementation is used even where the optional C one is installed, so that what
    is installed never changes an answer.

    Parameters
    ----------
    language : str
        One of ``snowballstemmer.algorithms()``.
    limit : int
        The most stems remembered; the cache is emptied when it is full.

    Raises
    ------
    InvalidInput
        The language is unknown.

    Examples
    --------
    >>> stemmer = Stemmer("english")
    >>> stemmer.stem("timeouts"), stemmer.stem("retrying")
    ('timeout', 'retri')
    """

    def __init__(self, language: str, limit: int = 1 << 18) -> None:
        self.language = language
        self._limit = limit
        self._cache: dict[str, str] = {}
        self._lock = threading.Lock()  # a Snowball object holds the word it works on
        self._snowball = _snowball(language)

    def stem(self, token: str) -> str:
        """The stem of a folded token.

        A token that ends in a digit or has more than 64 characters is its own stem, and so is one
        of a script without spaces.
        """
        found = self._cache.get(token)
        if found is not None:
            return found
        if len(token) > MAX_STEMMED or token[-1:].isdigit() or _all_unspaced(token):
            return token
        with self._lock:
            stem = self._snowball.stemWord(token)
            if len(self._cache) >= self._limit:
                self._cache = {}  # replaced, not cleared: a reader may be looking into it
            self._cache[token] = stem
        return stem


def _snowball(language: str) -> _Snowball:
    name = language.lower() if isinstance(language, str) else ""
    try:
        if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name):
            raise ImportError
        module: Any = import_module(f"snowballstemmer.{name}_stemmer")
    except ImportError:
        from snowballstemmer import algorithms

        raise InvalidInput(
            f"language: found {language!r}, expected one of {', '.join(algorithms())}."
        ) from None
    return cast(
        _Snowball, getattr(module, "".join(p.title() for p in name.split("_")) + "Stemmer")()
    )


def word_set(text: str) -> frozenset[str]:
    """The words of a text between white space."""
    return frozenset(text.split())


# Words of English that carry no subject. Pieces of contractions are there because tokens break at
# the apostrophe.
STOP_WORDS: Final = word_set(
    """
    a about above after again against ain all am an and any are aren as at be because been before
    being below between both but by can cannot could couldn d did didn do does doesn doing don
    down during each few for from further had hadn has hasn have haven having he her here hers
    herself him himself his how i if in into is isn it its itself just ll m ma may me might mightn
    more most must mustn my myself needn no nor not now o of off on once only or other our ours
    ourselves out over own re s same shall shan she should shouldn so some such t than that the
    their theirs them themselves then there these they this those through to too under until up
    upon us ve very was wasn we were weren what when where which while who whom whose why will
    with won would wouldn y you your yours yourself yourselves
    """
)

# Words that open a sentence and belong to no name, wherever they stand first; alone they are no
# name anywhere.
STARTERS: Final = word_set(
    """
    aaa aah absolutely according actually additionally afterwards ah aha ahead ahh alas albeit
    almost along alongside already alright also although altogether always amid among amongst
    another anytime anyway anyways apart apparently around aside aw awesome aww awww basically
    beside besides beyond btw bye certainly cheers clearly congrats congratulations consequently
    conversely currently cuz definitely despite due dunno either else elsewhere enough especially
    even eventually ever every everybody everyone everything everywhere exactly except excluding
    false fifthly finally firstly formerly fortunately fourthly frankly furthermore fyi generally
    gonna gosh gotcha gotta ha hah haha hahaha hehe hello hence hey hi hmm hmmm honestly hooray
    hopefully however huh imo including indeed inf initially instead ironically irrespective kudos
    lastly lately later legally lemme lest let lets like likewise literally lol looks luckily
    mainly maybe meanwhile mm mmm moreover mostly much nah namely nan near nearly neither never
    nevertheless nobody none nonetheless nope notably nothing notwithstanding null nvm obviously
    occasionally often oh ok okay omg oof ooh oops originally otherwise ouch outside overall per
    perhaps phew plainly please plus possibly presumably previously primarily probably quite
    rather really recently regarding regardless roughly sadly secondly see seems several shortly
    similarly simply since somebody somehow someone something sometime sometimes somewhat
    somewhere soon sorry specifically still subsequently suddenly sup supposedly sure surely
    technically thank thanks thereafter thereby therefore thirdly though throughout thus til till
    today together tomorrow tonight toward towards true truly typically ugh uh um undoubtedly
    unfortunately unless unlike unlikely usually versus via wanna well whatever whenever whereas
    whereby wherever whether whichever whilst whoa whoever wishing within without woah woo woohoo
    wow xd ya yay yea yeah yep yes yesterday yet yikes yo yum yup
    """
)

# Common words that a sentence may open with: alone there, they are no name.
COMMON_WORDS: Final = word_set(
    """
    ability able absolute abstract accepts access account accounts act action actions active
    activity actor actress actual adapter add additional address adds advanced age agent agents
    ago agree air album algorithm algorithms alias aliases align allergies allow allows
    alphanumeric alternate alternative amazing amount ancient angle angles animal animals answer
    api app appears append appends applet application applications applies apply appreciate
    appropriate approximate arc architecture archive area areas argument arguments arithmetic arm
    army array arrays art article articles artist ask asks assemble assert assets assign assume
    async attack attempt attribute attributes audio author authority authors auto automatic
    average award awards axes axis baby back backend background backup bad bag balance ball band
    bank bar base basic basis basketball batch battle beautiful beauty become becomes bed begin
    beginning behind believe best bet better beware big bill binary bind birds birth bit black
    block blocks blood blue board boat body book books boolean border born bottom bound bounds box
    boy boys branch brave bread break bridge bring brings broadcasts broken brother brothers
    browser buffer bug build building buildings builds built bummer business busy button buy byte
    bytes cache calculate calculates calendar call callable callback calls camera candidate
    capital capture car card care case cases cast cat catch category cause causes cell cells
    center central century certain chain chair challenge challenges chance change changed changes
    channel chapter character characters charge chart chase chat check checks chemical cherish
    chess chief child children choice choose church cities city civil class classes classic clean
    clear clears client clients climate clipboard clock clone close cloud club code codec codes
    coefficient coefficients coin cold collect color colors column columns combine come comes
    comma command comment comments commit common community company compare compares competition
    competitive competitors compilation compile compiler complete complex component components
    compress compression compute computer computes concatenate concern condition conditions
    confidence confident config configure connect consider console constant constants construct
    construction contact contains contemporary content contents context continue contract contrary
    control controls conversion convert converter converts cook cool coordinates copies copy core
    corner correct corresponds cost costs count countries country counts county couple course
    court cover cozy crazy create creates creativity credit crew crime critic critics cross crowd
    cultural culture cumulative cup current curve custom cut cute cutoff cycle daemon daily damage
    dance danger dark data database date dates daughter day days db dead deal dear death debate
    debug decide decimal decorator deep default defaults define defines degree delete demo
    dependency depends derive describes design designs desktop detail details detect determine
    determines dev develop developer device devices diagram dialog dict dictionary die differences
    different differentiate difficult digital dimension dimensions dinner direct direction
    director directories directory disable disc discover discrete discussion disk dispatch display
    displays distance distribution district divide divides docs doctor document documents dog dogs
    dollar domain domestic door double doubt download dr draw drive driver drivers drop dry dual
    dummy duration dynamic ear early earth ease easy eat economic economy edge edit editor
    education effect effects efficient effort eight eighteen elections electric electronic element
    elements eleven email embedded empty enable enables encode end energy engine engineer
    engineers enjoy enlarge ensure ensures enter entire entries entry environment epic episode
    episodes equal equivalent err error errors escape essential estimate estimates evaluate
    evaluates evening event events evidence evil exact example examples exams exception exceptions
    exchange excited executable execute exercise exit expand expect experience expert experts
    explore exponent export express expression extended extension extensions extensive external
    extra extract extracts eye eyes face fact factor factory fail fails failure fair fall falls
    families family fan fans fantasy far farm fashion fast faster father fear feature features
    federal feel feels fees feet felt females fetch fiction field fields fifteen fifty fight
    figure file filename files fill film films filter filters final find finds fine fingers finish
    fire firewall firm first fish fit five fix fixed flag flags flat flexible flight float floor
    flow flower flowers flush fly folder folk follow follows font fonts food foot football force
    forces foreign forest form formal format formats formatter former forty forward four fourteen
    fraction frame framework frameworks free frequency fresh friend friends friendship front fruit
    full fully fun function functions fundamental fur future gain gallery game games garden gas
    gather general generate generates generator generic geometry get gets getter girl girls give
    given gives glad glass global go goal goals god gods going gold gone good goods got government
    graph graphic graphical graphics great green grid ground group groups grow guess guest
    guidance guide gun guy guys half hall hand handle handler handles hands hang happy hard
    hardware hash head header headers health hear heard heart heat height help helper helps hero
    hide hierarchical high higher highest highly hill hint histogram historians history hit hold
    holds hole home hope horse horses hospital host hot hotel hour hours house human hundred
    hundreds husband ice icon id idea ideas identify idle ignore image images imagine immediate
    imperial impl implement implementation implements import important imports impressive
    independent index indexes indicate indicates indices indirect individual industrial industry
    infinite info information inherit initial initialize inner input inputs insert inserts inside
    inspect install instance instances institute instruction instructions instrument int integer
    integers integral integrate intelligent interactive interchange interest interesting interface
    interfaces interior internal international internet interpolate interpret interpreter interval
    invalid inverse inverses invite island isolate issue issues item items iterate iterator jazz
    job join joint journal judge jump junior justice keep keeps kernel key keyboard keys keyword
    keywords kid kids kind kings kitchen know known label labels lady land language languages
    laptop large larger largest last late latest laughter law laws lawyer layer layers layout lazy
    lead leader leaders leads league learn least leave left legacy legal legend length less lesson
    level levels liberal libraries library license life light lightweight limit limits line linear
    lines link links list listen lists literacy little live lives load loan local locale location
    lock log logic logical long longer look loop lord lose loss lossy lost lot lots love low lower
    lucky lunch machine made mag magic mail main major make maker makes males man manage manager
    manages manual many map maps march market mask master match matches material math matrices
    matrix matter max maximum meal mean means measure meat mechanism media medical medium meet
    meetup member members memory men mental mentors menu merge mesh message messages met meta
    metadata method methods metric metrics micro mid middle middleware migration mile miles
    military milk million mimic min mind mine minimal minimum minister minor minute minutes misc
    mismatch miss mission mix mixed mixer mobile mode model models modern modified modify modular
    module modules mom moment money monitor month monthly months moon morning mother motion motor
    mount mountain mouse move movement moves movie movies multi multidimensional multiplayer
    multiple multiply music musical musicians mutable mystery naive name named names narrow nation
    national nations native natural nature need needs negative nested net network networks new
    newly news next nice night nine nineteen node nodes noise nominal non normal normalize norms
    north northern note notes notice novel number numbers numeric numerical nurse object objects
    observe obstacles obtain ocean odd offer office officer officers official offset oil old older
    one ones online open opens opera operate operation operations operator opinion option optional
    options orange order orders ordinary organization origin original others outdoor outer output
    outputs overridden override overrides overview owner pack package packages packet packs pad
    pads page pages paid pain paint painting pair pairs palace panel paper parallel parameter
    parameters parent parents park parse parser parses part partial parties partner parts party
    pass passes password past patch path paths patient patients pattern pay peace people percent
    percentage perfect perform performance performs period permission permit person personal pet
    pets phase phone photo photos phrase physical pick picture pictures piece pipe pipeline pixel
    pixels place places plain plan plane planet plans plant plants platform play player players
    plays plot plug plugin plugins point points police policy political politics polynomial pool
    poor pop popular population port portable portrait ports position positive possible post posts
    pot pottery power powerful practical practice precision prefer prefix prepare present
    president press pretty prevent previous price prices primary prime prince princess principal
    print prints prior prison private prize problem problems process processes produce producer
    product production products professional professor profile program programme programs project
    projects proof proper properties property protect protocol prototype proud provide provider
    provides proxy public publish pull pure purpose push put puts quality quantity queen query
    question questions queue quick quickly quiet quit race radio rain raise raises random range
    ranges rank rapid rare rate rates raw reach reaction read reader readers reads ready real
    reason reasons rebuild recall receive recent recipe recommend record records recover rectangle
    recursive red reduce reduces ref refer reference references regex region register regression
    regular related relation relationship relative release releases relevant reload remember
    reminds remote remove removed removes rename render rent repeat replace replaces reply report
    reports repository represent representation represents request requests require required
    requires rescue research reset resolve resource resources respect response rest restart
    restaurant restore result results retrieve retry return returns reverse review rewrite rice
    rich ride right ring rise risk river road robust rock role roles roll room root roots rotate
    round route routine routines row rows royal rule rules run runner runs runtime safe said sail
    sales salt sample samples save saves say says scalar scalars scale scales scan scene schedule
    schema school schools science scientific scientists scope score scores screen screensaver
    script scripts sea search season seasons seat second seconds secret section sections secure
    security seed seeds seen select selected selects self sell send sends senior sense sent
    sentence separate sequence sequences serial series server serves service services session set
    setbacks sets setter setup seven seventeen sex shape shapes share shared shares sheet shell
    shift shifts ship ships shoes shop short shorthand shot show shows side sign signal signature
    silent silver similar simple simulate single singular sister sisters site sites situation six
    sixteen sixty size sizes skip sky slaves sleep slice slow small smaller smart smooth snapshot
    snow soccer social society socket soft software soil soldiers solid solution solve son song
    songs sort sorts soul sound sounds source sources south southern space spaces spam span sparse
    speak special species specific specifies specify speech speed spend spirit split sport sports
    spring square stable stack stacks staff stage standalone standard standards star stars start
    starts stat state statement states static station statistics stats status stay stdout steal
    steel step steps stick stock stone stop stops storage store stores stories storm story
    straight straightforward strange strategy stream streams street strength stress strict string
    strings strip strong structure structured structures struggles student students studies studio
    study stuff style sub subclass subclasses subject submit subset substring subsystem subtract
    success sudden suffix suggest suite sum summary summer sums sun super supply support supports
    suppose suppress surface surprise survey suspend swap sweet swift switch symbol symbols sync
    syntax synthesize system systems table tables tackle tag tags take takes talk tall target task
    tasks tax taxes tea teach teacher teachers team teams tech technical technique technology teen
    tell temp temperature template temporary ten tensor term terminal terminology terms terrible
    test tester tests text texts theater theme themes theoretical theory thin thing things think
    third thirteen thirty thought thoughts thousand thousands thread threads three threshold throw
    tight time timeout times timestamp tiny tip tips title titles toggle token tokens told tons
    took tool toolkit tools top topic topics total touch tough tour town towns toy trace traceback
    track tracks trade tradition traditional traffic trail train trains transfer transform
    transforms transitional translate transport travel treat treatment tree trees trial tribal
    tribes tries trigger trip trips trouble truck truncate trust truth try tune tuple turn turns
    turtles tutorial twelve twenty twice twin two type types unable uncle understand unicode
    uniform union unique unit units unity univariate universal university unknown unofficial
    unpacks update updated updates upgrade upload upper urban usage use used useful user username
    users userspace uses utilities utility valid validate validates value values variable
    variables variance variant variants variation variety various vector vectors vendor versatile
    version versions vertical veteran video videos view viewer views village violence virtual
    visible vision visit visual visualize voice void volume volumes vote wait walk wall want wants
    war warm warn warning warnings warns warranty watch water wave way ways weak weapon wear
    weather web website websites wedding weddings week weekend weekly weeks weight weights weird
    welcome west western wet wheel white whole wide widely widget widgets wife wild win wind
    window windows wine winner winter wire wise wish wolf woman women wonder wonderful wood word
    words work worker workers working works world worries worst worth wrap wrapper wraps write
    writer writers writes written wrong yaml year years yellow yield yields yoga young youth zero
    zip zone
    """
)
